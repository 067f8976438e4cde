// Attention of segments with very few queries (decoding): bound by reading keys and values once.
#pragma once
#include <vector>

#include "kernels/kernels.h"

namespace ravine {

inline constexpr int64_t kDecodeQueries = 4;

// Keys are cut into chunks, by shapes only, which threads take one by one; their softmaxes are joined in order.
void attend_few(const AttentionForward& a, const std::vector<const Segment*>& segments, void* workspace);
int64_t attend_few_workspace(const AttentionForward& a, int threads);

}  // namespace ravine
