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
  // Sum of log-probabilities / length^length_penalty; the log-probabilities are taken after penalties and warpers.
  double score = 0;
  double logprob = 0;  // sum of the model's own log-probabilities, as in Generated
};

struct Generated {
  std::vector<int32_t> ids;  // new tokens only, up to and including the end id
  Finish finish = Finish::stop;
  // Sum over `ids` of their natural log-probabilities by the model itself, before penalties and warpers.
  double logprob = 0;
  std::vector<Beam> beams;  // results of a beam search, best first; `ids` is the first
  bool begun = false;       // false if generation was stopped before this prompt began
  std::string error;        // the message, if finish is error
};

// Callbacks of generate(), all optional. The calling thread calls them, in no fixed order of sequences. `prompt` counts
// from 0.
struct GenerateEvents {
  // Called with each new token. A result of false ends the sequence (Finish::stop).
  std::function<bool(size_t prompt, int32_t id)> token;
  std::function<void(size_t prompt, const Generated& result)> finished;
  std::function<bool()> stop;  // called before each step; true ends all sequences
  // Called when a prompt fails; the other prompts continue, and finished() is called too. If it is not set, the first
  // failure is thrown.
  std::function<void(size_t prompt, const std::string& error)> failed;
};

// Throws the UserErrors of generate() that concern prompts.
void check_prompts(const std::vector<std::vector<int32_t>>& prompts, const ModelFacts& facts, const GenerateOptions& options,
                   const std::string& where);
void check_prompts(std::span<const PromptModel> prompt_models, std::span<const size_t> of,
                   const std::vector<std::vector<int32_t>>& prompts, const std::string& where);

// Returns one result per prompt, in order. On several ranks that run one model (infer/model_ranks.h), all ranks call it
// with the same arguments and get the same results. Events are called on each rank and must return the same values on
// all; only `stop` may differ, and is true if any rank returns true. An empty prompt, an id outside the vocabulary, or
// more tokens than the model has positions is a UserError. It names `where` and the prompt, and is thrown before the
// model runs. NaN in the logits is an Error of its prompt.
std::vector<Generated> generate(const LoadedModel& loaded, const std::vector<std::vector<int32_t>>& prompts,
                                const GenerateOptions& options, const GenerateEvents& events = {},
                                const std::string& where = "prompts");

// The same with several models that share batches (infer/prompt_models.h). of[prompt]: index of the prompt's model.
// batch, step_tokens, recipe and observer are taken from the options of the first prompt model; `numbers` and `places`
// of each prompt model are indexed by all prompts.
std::vector<Generated> generate(std::span<const PromptModel> prompt_models, std::span<const size_t> of,
                                const std::vector<std::vector<int32_t>>& prompts, const GenerateEvents& events = {},
                                const std::string& where = "prompts");

}  // namespace ravine
