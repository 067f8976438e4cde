// Generates the continuations of a list of prompts, `batch` prompts at a time (infer/batcher.h). When a sequence ends,
// the next prompt takes its slot.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "infer/batcher.h"

namespace ravine {

struct Beam {
  std::vector<int32_t> ids;  // new tokens only, up to and including the end id
  // Score of the beam: sum of log-probabilities / length^length_penalty. The log-probabilities are taken after
  // penalties and warpers.
  double score = 0;
  double logprob = 0;  // sum of the model's own log-probabilities, as in Generated
};

struct Generated {
  std::vector<int32_t> ids;  // new tokens only, up to and including the end id
  Finish finish = Finish::stop;
  // The sum of the log-probabilities of `ids` by the model itself (natural logarithms), before penalties and warpers.
  double logprob = 0;
  std::vector<Beam> beams;  // results of a beam search, best first; `ids` is the first
  bool begun = false;       // false if generation was stopped before this prompt began
  std::string error;        // the message, if finish is error
};

// Callbacks of generate(), all optional. The calling thread calls them, in no fixed order of sequences. `prompt`: index
// of the prompt in the list, from 0.
struct GenerateEvents {
  // Called with each new token of a prompt. A result of false ends its sequence (Finish::stop).
  std::function<bool(size_t prompt, int32_t id)> token;
  std::function<void(size_t prompt, const Generated& result)> finished;
  std::function<bool()> stop;  // called before each step; true ends all sequences
  // Called when the generation of a prompt fails; the other prompts continue, and finished() is called too. If this
  // callback is not set, the first failure is thrown.
  std::function<void(size_t prompt, const std::string& error)> failed;
};

// Checks prompts before generation. UserErrors: an empty prompt, an id outside the vocabulary, more tokens than the
// model has positions. A message names `where` and the prompt.
void check_prompts(const std::vector<std::vector<int32_t>>& prompts, const ModelFacts& facts, const GenerateOptions& options,
                   const std::string& where);
void check_prompts(std::span<const PromptModel> prompt_models, std::span<const size_t> of,
                   const std::vector<std::vector<int32_t>>& prompts, const std::string& where);

// Generates the continuation of each prompt; returns one result per prompt, in the order of the prompts. On several
// ranks that run one model (infer/model_ranks.h), all ranks call it with the same arguments and get the same results.
// Events are called on each rank and must return the same values on all; only `stop` may differ, and is true if any
// rank returns true. An empty prompt, an id outside the vocabulary, or more tokens than the model has positions is a
// UserError. It names `where` and the prompt, and is thrown before the model runs. NaN in the logits is an Error of its
// prompt.
std::vector<Generated> generate(const LoadedModel& loaded, const std::vector<std::vector<int32_t>>& prompts,
                                const GenerateOptions& options, const GenerateEvents& events = {},
                                const std::string& where = "prompts");

// Generates as above, with several models that share batches (infer/prompt_models.h). of[prompt]: index of the prompt's
// model. batch, step_tokens, recipe and observer are taken from the options of the first prompt model; `numbers` and
// `prompt_names` of each prompt model are indexed by all prompts.
std::vector<Generated> generate(std::span<const PromptModel> prompt_models, std::span<const size_t> of,
                                const std::vector<std::vector<int32_t>>& prompts, const GenerateEvents& events = {},
                                const std::string& where = "prompts");

}  // namespace ravine
