// Choosing one token from the scores of one row [V]. Scores are finite, or -infinity for removed tokens.
#pragma once
#include <cstdint>
#include <span>

namespace ravine {

// In place: exp(x - max) / sum, stored in float as PyTorch does; -infinity becomes exactly 0. At least one score is finite.
void softmax(std::span<float> scores);

// The lowest index of the largest score; 0 if none is a number.
int32_t index_of_largest(std::span<const float> scores);

// The best score, the lowest id among equals (torch.argmax). Nothing left to choose is an Error.
int32_t choose_best(std::span<const float> scores);

// Draws from softmax(scores) with the one number that (seed, sequence, position) gives: the same whatever else is in the batch.
// Error as above; a removed token is never drawn. sequence: number of the prompt; position: of the new token, counted from the
// prompt's first.
int32_t choose_at_random(std::span<const float> scores, uint64_t seed, uint64_t sequence, uint64_t position);

}  // namespace ravine
