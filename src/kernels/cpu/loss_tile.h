// Vector steps of the loss head over a block of logits kept transposed, vocabulary by tokens (loss_tile.cpp). `lanes` counts
// tokens, rounded up to a multiple of 16 that the block has room for.
#pragma once
#include <cstdint>

namespace ravine {

// Per token over `rows` of the vocabulary: top = log2(e) * the largest logit, sum = sum of 2^(log2(e) * logit - top).
void logit_sums(const float* logits, int64_t pitch, int64_t rows, int64_t lanes, float* top, float* sum);

// logit becomes cap * tanh(logit / cap).
void cap_logits(float* logits, int64_t pitch, int64_t rows, int64_t lanes, float cap);

// logit becomes factor * 2^(log2(e) * logit - top), and, if it is capped (cap != 0), times 1 - (logit / cap)^2.
void logit_gradient(float* logits, int64_t pitch, int64_t rows, int64_t lanes, const float* top, const float* factor,
                    float cap);

}  // namespace ravine
