// What happens to the logits of one row [V] before a token is chosen. The arithmetic is that of Transformers'
// generation/logits_process.py in float32, ties included; a removed token has score -infinity. Scores must not be NaN.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace ravine {

// Once per distinct id of `context` (prompt and new tokens): positive scores are divided by `penalty`, negative ones
// multiplied.
void penalize_repetition(std::span<float> scores, std::span<const int32_t> context, double penalty);

// Removes each token that would complete a run of `size` tokens already in `context`.
void forbid_repeated_ngrams(std::span<float> scores, std::span<const int32_t> context, int64_t size);

void apply_temperature(std::span<float> scores, double temperature);

// Keeps the k best (at least `least`) and whatever ties with the last of them.
void keep_top_k(std::span<float> scores, int64_t k, int64_t least = 1);

// Removes the least likely tokens whose probabilities together are at most 1 - p: the token that crosses p stays, and so does
// the `least` best. Among equals the lower id goes first.
void keep_top_p(std::span<float> scores, double p, int64_t least = 1);

// The five settings; each has a value that means off.
struct Processing {
  double repetition_penalty = 1;
  int64_t no_repeat_ngram = 0;
  // Only where tokens are drawn.
  double temperature = 1;
  int64_t top_k = 0;
  double top_p = 1;
  int64_t least_kept =
      1;  // that top-k and top-p leave: with beams Transformers wants one more than there are end ids, at least 2
};

// All that is on, in Transformers' order: repetition, n-grams; then, where `sample`, temperature, top-k, top-p.
void process(std::span<float> scores, std::span<const int32_t> context, const Processing& settings, bool sample);

}  // namespace ravine
