// Log-probabilities of continuations of contexts. A common beginning runs through the model once. This applies to the
// beginning of all contexts of a batch (the examples of a few-shot prompt), and to the continuations of an item.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "infer/loaded_model.h"

namespace ravine {

struct Continuations {
  std::vector<int32_t> context;                     // at least one token
  std::vector<std::vector<int32_t>> continuations;  // each has at least one token
  // For each continuation, the context that it follows instead of `context`; an empty entry: it follows `context`.
  std::vector<std::vector<int32_t>> contexts;
};

struct Likelihoods {
  std::vector<double> logprobs;  // natural logarithms, summed over the tokens of each continuation
  int32_t first = -1;            // the most likely token after the context; -1 if there are no continuations
};

struct LikelihoodOptions {
  int64_t batch = 16;          // items at a time
  int64_t step_tokens = 1024;  // tokens per pass: limits the memory of activations
  const Recipe* recipe = nullptr;
  Observer* observer = nullptr;  // called for every kernel call
};

// Callbacks of likelihoods(), all optional. The calling thread calls them.
struct LikelihoodEvents {
  std::function<void(size_t item, const Likelihoods& result)> finished;  // called for each item, in order
  std::function<bool()> stop;                                            // called before each batch; true ends the run
};

// Computes the log-probability of each continuation after its context; returns one result per item, in order. Items
// after a stop have no logprobs. A context and a continuation together may have one token more than the model has
// positions. If they have more, the first tokens of the context are dropped, as in lm-evaluation-harness
// (HFLM._loglikelihood_tokens). On several ranks that run one model (infer/model_ranks.h), all ranks call it with the
// same arguments and get the same results. An id outside the vocabulary, a continuation without tokens, or a
// continuation longer than the positions is a UserError. It names `where` and the item, and is thrown before the model
// runs. NaN is an Error.
std::vector<Likelihoods> likelihoods(const LoadedModel& loaded, const std::vector<Continuations>& items,
                                     const LikelihoodOptions& options, const LikelihoodEvents& events = {},
                                     const std::string& where = "items");

}  // namespace ravine
