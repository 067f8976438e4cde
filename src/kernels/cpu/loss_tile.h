// Vector steps of the loss head over a block of logits kept transposed, vocabulary by tokens (loss_tile.cpp). `lanes` counts
// tokens, rounded up to a multiple of 16 that the block has room for.
#pragma once
#include <cstdint>

namespace ravine {

// Per token over `rows` of the vocabulary: top = log2(e) * the largest logit, sum = sum of 2^(log2(e) * logit - top).
void logit_sums(const float* logits, int64_t pitch, int64_t rows, int64_t lanes, float* top, float* sum);

// logit becomes factor * 2^(log2(e) * logit - top).
void logit_gradient(float* logits, int64_t pitch, int64_t rows, int64_t lanes, const float* top, const float* factor);

}  // namespace ravine
