// Vector steps of the loss head over a block of logits, stored transposed as [vocabulary][tokens] (loss_tile.cpp).
// `lanes` is the number of tokens, rounded up to a multiple of 16; the block has room for it.
#pragma once
#include <cstdint>

namespace ravine {

// Computes the parts of a logsumexp for each token, over `rows` rows of the vocabulary: top = log2(e) * the largest
// logit, sum = sum of 2^(log2(e) * logit - top).
void logit_sums(const float* logits, int64_t pitch, int64_t rows, int64_t lanes, float* top, float* sum);

// Replaces logits by cap * tanh(logit / cap).
void cap_logits(float* logits, int64_t pitch, int64_t rows, int64_t lanes, float cap);

// Replaces logits by their gradients: factor * 2^(log2(e) * logit - top); with a cap (cap != 0) also times 1 - (logit /
// cap)^2.
void logit_gradient(float* logits, int64_t pitch, int64_t rows, int64_t lanes, const float* top, const float* factor,
                    float cap);

}  // namespace ravine
