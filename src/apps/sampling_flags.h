// Flags of commands that generate text: how tokens are chosen, and what ends an answer.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "apps/command.h"
#include "infer/generation_config.h"
#include "infer/prompt_model.h"
#include "text/tokenizer.h"

namespace ravine {

struct SamplingFlags {
  // Lists are empty if the flag was not given.
  std::vector<int64_t> max_new_tokens, top_k, no_repeat_ngram_size, stop_ids;
  std::vector<double> temperature, top_p, min_p, typical_p, repetition_penalty;
  double frequency_penalty = 0, presence_penalty = 0;
  std::map<std::string, double> logit_bias;
  std::vector<std::string> stop, stop_tokens;
  int64_t seed = 0;
  bool sample = false;
  template <class V>
  void each(V&& v) {
    v.heading("How tokens are chosen");
    v("max-new-tokens", max_new_tokens, "limit of new tokens (default: as in generation_config.json, else 128)",
      between(1, kMostTokens) & length(1) & metavar("N"));
    v("stop", stop, "texts that end an answer, and are not part of it; several after one flag", filled() & metavar("TEXT"));
    v("stop-ids", stop_ids, "token ids that end an answer, in addition to the model's", between(0, INT32_MAX) & metavar("ID"));
    v("stop-tokens", stop_tokens, "tokens that end an answer, as the vocabulary spells them, in addition to the model's",
      filled() & metavar("TOKEN"));
    v("sample", sample, "sample tokens; without it: always the most likely token");
    v("temperature", temperature, "divisor of the logits before sampling; 0: most likely token, as without --sample",
      between(1e-6, 1e6) & or_zero() & length(1) & metavar("X"));
    v("top-k", top_k, "sample among the K most likely tokens; 0: all tokens", between(0, INT32_MAX) & length(1) & metavar("K"));
    v("top-p", top_p, "sample among the most likely tokens with total probability P", between(0, 1) & length(1) & metavar("P"));
    v("min-p", min_p, "sample among tokens at least P times as likely as the most likely one; 0: off",
      between(0, 1) & length(1) & metavar("P"));
    v("typical-p", typical_p, "locally typical sampling with total probability P; 1: off",
      between(0, 1) & length(1) & metavar("P"));
    v("repetition-penalty", repetition_penalty, "penalty of tokens that have occurred; above 1 makes them less likely; 1: off",
      between(1e-6, 1e6) & length(1) & metavar("X"));
    v("no-repeat-ngram-size", no_repeat_ngram_size, "length N of token sequences that may not occur twice; 0: off",
      between(0, kMostTokens) & length(1) & metavar("N"));
    v("frequency-penalty", frequency_penalty, "penalty of a token's logit for each occurrence in the answer",
      between(-100, 100) & metavar("X"));
    v("presence-penalty", presence_penalty, "penalty of the logits of all tokens in the answer",
      between(-100, 100) & metavar("X"));
    v("logit-bias", logit_bias, "numbers to add to the logits of tokens, {ID: X, ..}", between(-1e6, 1e6) & metavar("MAP"));
    v("seed", seed, "seed of sampling: the same seed gives the same text", at_least(0));
  }
};

// Returns the options of generation by the flags, and by the model's defaults for flags that were not given. `longest`
// is the length of the longest prompt in tokens. Ids outside the vocabulary are UserErrors.
GenerateOptions sampling_options(const SamplingFlags& flags, const ModelFacts& facts, const GenerationDefaults& defaults,
                                 int64_t longest);
// Adds the ids of --stop-tokens to the ids in `options` that end an answer. A token outside the vocabulary is a
// UserError. So is --stop-tokens without a tokenizer (null).
void add_stop_tokens(const SamplingFlags& flags, const Tokenizer* tokenizer, GenerateOptions& options);
// Returns the texts that end an answer: the values of --stop, else the model's defaults.
std::vector<std::string> stop_texts(const SamplingFlags& flags, const GenerationDefaults& defaults);

// Returns the names of the flags that were given and apply to sampling only: "--temperature and --top-p"; "" if there
// are none.
std::string given_for_draws(const SamplingFlags& flags);
// Returns the names of the flags that were given, as text: "--top-k and --top-p". Each pair has the name and if the
// flag was given.
std::string given_of(std::initializer_list<std::pair<const char*, bool>> flags);

}  // namespace ravine
