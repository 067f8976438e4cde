// Attention of segments with very few queries (decoding). Reading keys and values once takes most of the time.
#pragma once
#include <vector>

#include "kernels/kernels.h"

namespace ravine {

inline constexpr int64_t kDecodeQueries = 4;

// Attention for segments with at most kDecodeQueries queries (decoding). Keys are cut into chunks that depend on shapes
// only. Threads take chunks one by one; partial softmaxes are joined in order.
void attend_few(const AttentionForward& a, const std::vector<const Segment*>& segments, void* workspace);
int64_t attend_few_workspace(const AttentionForward& a, int threads);

}  // namespace ravine
