// How likely a model finds given continuations of given contexts. What several rows have in common is read once: the beginning
// of all contexts of a batch (worked examples), and of an item whatever its continuations share.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "infer/loaded_model.h"

namespace ravine {

struct Continuations {
  std::vector<int32_t> context;                     // at least one token
  std::vector<std::vector<int32_t>> continuations;  // each of one token or more
  std::vector<std::vector<int32_t>> contexts;  // of each: tokens that it follows in place of `context`; empty: it follows that
};

struct Likelihoods {
  std::vector<double> logprobs;  // natural, summed over the tokens of each continuation
  int32_t first = -1;            // the most likely token behind the context, where a continuation has a token
};

struct LikelihoodOptions {
  int64_t batch = 16;          // items at a time
  int64_t step_tokens = 1024;  // per pass: bounds the memory of activations
  const Recipe* recipe = nullptr;
  Observer* observer = nullptr;  // of every kernel call
};

// Both optional, called on the calling thread.
struct LikelihoodEvents {
  std::function<void(size_t item, const Likelihoods& result)> finished;  // in order
  std::function<bool()> stop;                                            // asked before each batch; true ends all
};

// One result per item, in order; those that a stop left out have no logprobs. Where context and continuation have more tokens
// than the model has positions, plus one, tokens of the context are left out on the left, as lm-evaluation-harness does
// (HFLM._loglikelihood_tokens). Of several ranks that run one model (infer/model_ranks.h) all call it alike and get the same. An id
// outside the vocabulary, a continuation without tokens, or one longer than the positions, is a UserError naming `where` and the number of the
// item, before anything runs. A model that gives NaN is an Error.
std::vector<Likelihoods> likelihoods(const LoadedModel& loaded, const std::vector<Continuations>& items,
                                     const LikelihoodOptions& options, const LikelihoodEvents& events = {},
                                     const std::string& where = "items");

}  // namespace ravine
