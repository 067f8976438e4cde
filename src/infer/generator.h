// Writes on where prompts end: all of a list, `batch` of them at a time (infer/batcher.h). A sequence that is done leaves the
// batch and the next prompt takes its slot.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "infer/batcher.h"

namespace ravine {

struct Beam {
  std::vector<int32_t> ids;  // new tokens only, up to and including the end id
  double score = 0;    // sum of log-probabilities / length^length_penalty, as the search sees them: after penalties and warpers
  double logprob = 0;  // sum of the model's own, as in Generated
};

struct Generated {
  std::vector<int32_t> ids;  // new tokens only, up to and including the end id
  Finish finish = Finish::stop;
  // Sum over `ids` of the natural log-probability that the model itself gives them: before penalties and warpers.
  double logprob = 0;
  std::vector<Beam> beams;  // of a beam search, best first; `ids` are those of the best
  bool begun = false;       // false: stopped before this prompt's turn
  std::string error;        // of finish error: what failed
};

// All optional, called on the calling thread, in no particular order of sequences; `prompt` counts from 0.
struct GenerateEvents {
  std::function<bool(size_t prompt, int32_t id)> token;  // each new token; false ends this sequence (stop)
  std::function<void(size_t prompt, const Generated& result)> finished;
  std::function<bool()> stop;  // asked before each step; true ends all
  // A prompt whose answer failed; the others go on, and finished() hears it too. Without it the first failure is thrown.
  std::function<void(size_t prompt, const std::string& error)> failed;
};

// The UserErrors of generate().
void check_prompts(const std::vector<std::vector<int32_t>>& prompts, const ModelFacts& facts, const GenerateOptions& options,
                   const std::string& where);
void check_prompts(std::span<const PromptModel> prompt_models, std::span<const size_t> of,
                   const std::vector<std::vector<int32_t>>& prompts, const std::string& where);

// One result per prompt, in order. Of several ranks that run one model (infer/model_ranks.h) all call it alike and get the same;
// events are told on each, and what they answer must agree, but for `stop`, which any may say. An empty prompt, an id outside
// the vocabulary, or more tokens than the model has positions is a UserError naming `where` and the number of the prompt,
// before anything runs. A model that gives NaN is an Error of that prompt.
std::vector<Generated> generate(const LoadedModel& loaded, const std::vector<std::vector<int32_t>>& prompts,
                                const GenerateOptions& options, const GenerateEvents& events = {},
                                const std::string& where = "prompts");

// The same where prompts are answered by several models, of[prompt] each, in batches that they share (infer/prompt_models.h).
// options.batch, step_tokens, recipe and observer are those of the first; numbers are of all prompts.
std::vector<Generated> generate(std::span<const PromptModel> prompt_models, std::span<const size_t> of,
                                const std::vector<std::vector<int32_t>>& prompts, const GenerateEvents& events = {},
                                const std::string& where = "prompts");

}  // namespace ravine
