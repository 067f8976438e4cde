// Changes the logits of one row [V] before a token is chosen. The arithmetic follows Transformers'
// generation/logits_process.py in f32, ties included. A removed token has score -infinity. Scores must not be NaN.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace ravine {

// Applies the repetition penalty: divides positive scores by `penalty` and multiplies negative ones by it, once per
// distinct id of `context` (prompt and new tokens).
void penalize_repetition(std::span<float> scores, std::span<const int32_t> context, double penalty);

// Removes each token that would complete an n-gram of `size` tokens that `context` already contains.
void forbid_repeated_ngrams(std::span<float> scores, std::span<const int32_t> context, int64_t size);

void apply_temperature(std::span<float> scores, double temperature);

// Top-k: keeps the k tokens with the best scores (at least `least`), and all tokens that tie with the last of them. The
// score of every other token becomes -infinity.
void keep_top_k(std::span<float> scores, int64_t k, int64_t least = 1);

// A bias for one token, a number that add_bias adds to its score: Transformers' sequence_bias with a single id,
// OpenAI's logit_bias.
struct TokenBias {
  int32_t id = 0;
  double bias = 0;
};
void add_bias(std::span<float> scores, std::span<const TokenBias> biases);

// Applies OpenAI's frequency and presence penalties: the score of a token that occurs n > 0 times in `written` is
// lowered by n * frequency + presence.
void penalize_frequency(std::span<float> scores, std::span<const int32_t> written, double frequency, double presence);

// Top-p: removes the least likely tokens whose probabilities together are at most 1 - p. The token that crosses p
// stays, and so do the `least` best. Of equal scores the lower id is removed first.
void keep_top_p(std::span<float> scores, double p, int64_t least = 1);

// Min-p: removes tokens with a probability below min_p times the largest one; the `least` best stay.
void keep_min_p(std::span<float> scores, double min_p, int64_t least = 1);

// Locally typical sampling. Keeps the tokens whose surprise -log(p) is nearest to the entropy, until they reach the
// probability `mass` together; at least `least`. Tokens at the distance of the last one are kept too. Of equal
// distances the lower id comes first.
void keep_typical(std::span<float> scores, double mass, int64_t least = 1);

// The settings of process(), which changes the logits before a token is chosen. Each has a value that turns it off.
struct Processing {
  double repetition_penalty = 1;
  int64_t no_repeat_ngram = 0;
  // The fields down to typical_p are used only if tokens are drawn.
  double temperature = 1;
  int64_t top_k = 0;
  double top_p = 1;
  // The number of tokens that top-k and top-p must leave. With beams Transformers wants max(2, 1 + end ids).
  int64_t least_kept = 1;
  double min_p = 0;
  double typical_p = 1;
  // The fields from here on are used for greedy decoding, too.
  double frequency_penalty = 0, presence_penalty = 0;
  std::vector<TokenBias> bias;
};

// True if a setting is on that changes greedy decoding, too: repetition_penalty, no_repeat_ngram, frequency_penalty,
// presence_penalty or bias.
bool changes_best(const Processing& settings);

// Applies all settings that are on to the scores [V] of one row, in Transformers' order: bias, repetition, n-grams.
// OpenAI's penalties follow, which Transformers does not have. If `sample`: temperature, top-k, top-p, min-p, typical.
// prompt: number of ids at the beginning of `context` that the model did not generate.
void process(std::span<float> scores, std::span<const int32_t> context, const Processing& settings, bool sample,
             size_t prompt = 0);

}  // namespace ravine
