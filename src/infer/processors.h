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

// Adds a number to the scores of single tokens: Transformers' sequence_bias of one id each, OpenAI's logit_bias.
struct TokenBias {
  int32_t id = 0;
  double bias = 0;
};
void add_bias(std::span<float> scores, std::span<const TokenBias> biases);

// OpenAI's two: from a token that occurs n > 0 times in `written` n * frequency + presence is taken away.
void penalize_frequency(std::span<float> scores, std::span<const int32_t> written, double frequency, double presence);

// Removes the least likely tokens whose probabilities together are at most 1 - p: the token that crosses p stays, and so does
// the `least` best. Among equals the lower id goes first.
void keep_top_p(std::span<float> scores, double p, int64_t least = 1);

// Removes tokens less likely than min_p times the most likely one; the `least` best stay.
void keep_min_p(std::span<float> scores, double min_p, int64_t least = 1);

// Keeps the tokens whose surprise is nearest to the entropy, as many as reach the probability `mass` together, and whatever is as
// near as the last of them; at least `least`. Among equals the lower id goes first.
void keep_typical(std::span<float> scores, double mass, int64_t least = 1);

// Each setting has a value that means off.
struct Processing {
  double repetition_penalty = 1;
  int64_t no_repeat_ngram = 0;
  // Only where tokens are drawn.
  double temperature = 1;
  int64_t top_k = 0;
  double top_p = 1;
  int64_t least_kept =
      1;  // that top-k and top-p leave: with beams Transformers wants one more than there are end ids, at least 2
  double min_p = 0;
  double typical_p = 1;
  // Also where nothing is drawn.
  double frequency_penalty = 0, presence_penalty = 0;
  std::vector<TokenBias> bias;
};

// Whether anything is on that acts without drawing too.
bool changes_best(const Processing& settings);

// All that is on, in Transformers' order: bias, repetition, n-grams, then the penalties that it does not have; then, where
// `sample`, temperature, top-k, top-p, min-p, typical. The first `prompt` ids of the context were not written by the model.
void process(std::span<float> scores, std::span<const int32_t> context, const Processing& settings, bool sample,
             size_t prompt = 0);

}  // namespace ravine
