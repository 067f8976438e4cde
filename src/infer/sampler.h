// Chooses one token from the scores of one row [V]. Scores are finite, or -infinity for removed tokens.
#pragma once
#include <cstdint>
#include <span>

namespace ravine {

// Replaces scores by their softmax, exp(x - max) / sum, in place. The results are f32, as in PyTorch; -infinity becomes
// exactly 0. At least one score must be finite.
void softmax(std::span<float> scores);

// Returns the index of the largest score (the lowest index among equal ones); 0 if all scores are NaN.
int32_t index_of_largest(std::span<const float> scores);

// Returns the token with the best score, the lowest id among equals (torch.argmax). An Error if all tokens are removed.
int32_t choose_best(std::span<const float> scores);

// Draws a token from softmax(scores) with the random number of the key (seed, sequence, position), so the draw does not
// depend on the rest of the batch.
// sequence: number of the prompt; position: index of the new token, counted from the first token of the prompt. A
// removed token is never drawn. An Error if all tokens are removed.
int32_t choose_at_random(std::span<const float> scores, uint64_t seed, uint64_t sequence, uint64_t position);

}  // namespace ravine
