// Writes on where prompts end. Prompts of any length go through the model as one ragged batch, without padding: each step feeds
// one token of every sequence that is writing and, within a budget, the next piece of prompts that are still being read; a
// sequence that is done leaves the batch and the next prompt takes its slot.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "infer/processors.h"
#include "infer/session.h"

namespace ravine {

struct GenerateOptions {
  int64_t max_new_tokens = 128;  // per prompt; prompt and new tokens must fit the model's positions
  int64_t max_length = 0;        // 0, or: prompt and new tokens together
  std::vector<int32_t> end_ids;  // any of them ends a sequence
  Processing processing;
  bool sample = false;  // false: greedy
  uint64_t seed = 0;
  int64_t batch = 16;          // sequences at a time
  int64_t step_tokens = 1024;  // prompt tokens per step: bounds the memory of activations
  const Recipe* recipe = nullptr;
  Observer* observer = nullptr;   // of every kernel call
  std::vector<uint64_t> numbers;  // of the prompts, which draws are keyed by and messages name; empty: 0, 1, ..
  uint64_t number(size_t prompt) const { return numbers.empty() ? prompt : numbers[prompt]; }
};

// eos: an end id; length: max_new_tokens or max_length; stop: asked to, from outside.
enum class Finish : uint8_t { eos, length, stop };
std::string_view name(Finish f);

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
};

// All optional, called on the calling thread, in no particular order of sequences; `prompt` counts from 0.
struct GenerateEvents {
  std::function<bool(size_t prompt, int32_t id)> token;  // each new token; false ends this sequence (stop)
  std::function<void(size_t prompt, const Generated& result)> finished;
  std::function<bool()> stop;  // asked before each step; true ends all
};

// Tokens that the prompt and what follows it may have together.
int64_t length_limit(const std::vector<int32_t>& prompt, const GenerateOptions& options);
// The UserErrors of generate().
void check_prompts(const std::vector<std::vector<int32_t>>& prompts, const ModelFacts& facts, const GenerateOptions& options,
                   const std::string& where);

// One result per prompt, in order. Of several ranks that run one model (infer/team.h) all call it alike and get the same;
// events are told on each, and what they answer must agree, but for `stop`, which any may say. An empty prompt, an id outside
// the vocabulary, or more tokens than the model has positions is a UserError naming `where` and the number of the prompt,
// before anything runs. A model that gives NaN is an Error.
std::vector<Generated> generate(const Session& session, const std::vector<std::vector<int32_t>>& prompts,
                                const GenerateOptions& options, const GenerateEvents& events = {},
                                const std::string& where = "prompts");

}  // namespace ravine
