#include "infer/generator.h"

#include <algorithm>

#include "base/failure_text.h"
#include "infer/prompt_models.h"
#include "model/vocabulary.h"

namespace ravine {

namespace {

// Checks prompt `i` of the list that messages call `where`.
void check_prompt(const std::vector<int32_t>& prompt, size_t i, const ModelFacts& facts, const GenerateOptions& o,
                  const std::string& where) {
  require(o.max_new_tokens >= 1 && o.batch >= 1 && o.step_tokens >= 1,
          "generate: max_new_tokens, batch and step_tokens must be above 0, got {}, {}, {}", o.max_new_tokens, o.batch,
          o.step_tokens);
  auto prompt_name = [&] { return o.prompt_names.empty() ? fmt::format("{}, {}", where, o.prompt_name(i)) : o.prompt_name(i); };
  int64_t length = static_cast<int64_t>(prompt.size()), limit = length_limit(prompt, o);
  if (length == 0)
    throw UserError("a prompt without tokens", prompt_name(), "the model needs at least one token to continue",
                    "add text to the prompt");
  for (int32_t id : prompt)
    if (id < 0 || id >= facts.vocabulary)
      throw UserError(fmt::format("token {}", id), prompt_name(),
                      fmt::format("ids must be 0 or more, and below vocab_size = {}", facts.vocabulary), more_rows_advice(id));
  if (facts.max_positions > 0 && std::max(limit, length + 1) > facts.max_positions)
    throw UserError(fmt::format("{} tokens and {} new ones", length, std::max<int64_t>(limit - length, 1)), prompt_name(),
                    fmt::format("the model has max_position_embeddings = {}", facts.max_positions),
                    length < facts.max_positions ? fmt::format("use --max-new-tokens {} or less", facts.max_positions - length)
                                                 : "shorten the prompt");
  if (limit <= length)
    throw UserError(fmt::format("a prompt of {} tokens", length), prompt_name(),
                    fmt::format("max_length = {} leaves no room for a new one", o.max_length),
                    "use --max-new-tokens, which counts new tokens only");
}

}  // namespace

void check_prompts(const std::vector<std::vector<int32_t>>& prompts, const ModelFacts& facts, const GenerateOptions& o,
                   const std::string& where) {
  for (size_t i = 0; i < prompts.size(); ++i) check_prompt(prompts[i], i, facts, o, where);
}

void check_prompts(std::span<const PromptModel> prompt_models, std::span<const size_t> of,
                   const std::vector<std::vector<int32_t>>& prompts, const std::string& where) {
  require(of.size() == prompts.size(), "generate: {} prompt_models of {} prompts", of.size(), prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i)
    check_prompt(prompts[i], i, prompt_models[of[i]].loaded->model->facts(), prompt_models[of[i]].options, where);
}

namespace {

using Prompts = std::vector<std::vector<int32_t>>;

int64_t longest_of(const PromptModels& prompt_models, const Prompts& prompts) {
  int64_t longest = 0;
  for (size_t i = 0; i < prompts.size(); ++i) longest = std::max(longest, length_limit(prompts[i], prompt_models.options(i)));
  return longest;
}

class Run {
 public:
  Run(const PromptModels& prompt_models, const Prompts& prompts, const GenerateOptions& shared, const GenerateEvents& events)
      : prompt_models_(prompt_models),
        prompts_(prompts),
        events_(events),
        results_(prompts.size()),
        batcher_(prompt_models.loaded(), std::min<int64_t>(shared.batch, static_cast<int64_t>(prompts.size())),
                 longest_of(prompt_models, prompts), shared) {}

  std::vector<Generated> all() {
    while (admit()) {
      if (batcher_.model_ranks().any(events_.stop && events_.stop())) {
        for (const size_t prompt : batcher_.keys()) finish(prompt, Finish::stop);
        break;
      }
      for (const NewToken& token : batcher_.step()) take(token);
    }
    return std::move(results_);
  }

 private:
  bool admit() {
    for (; batcher_.free() > 0 && next_ < prompts_.size(); ++next_) {
      results_[next_].begun = true;
      batcher_.admit({next_, &prompt_models_.prompt_model(next_), prompt_models_.at(next_),
                      prompt_models_.options(next_).number(next_), prompt_models_.options(next_).prompt_name(next_),
                      prompts_[next_]});
    }
    return !batcher_.idle();
  }

  void take(const NewToken& token) {
    Generated& g = results_[token.key];
    if (token.failure) {
      if (!events_.failed) std::rethrow_exception(token.failure);
      g.error = failure_text(token.failure);
      events_.failed(token.key, g.error);
      return finish(token.key, Finish::error);
    }
    g.ids.push_back(token.id);
    g.logprob += token.logprob;
    const bool go_on = !events_.token || events_.token(token.key, token.id);
    if (!token.finish && !go_on) batcher_.remove(token.key);
    if (token.finish == Finish::eos || (token.finish && go_on))
      finish(token.key, *token.finish);
    else if (!go_on)
      finish(token.key, Finish::stop);
  }

  void finish(size_t prompt, Finish how) {
    results_[prompt].finish = how;
    if (events_.finished) events_.finished(prompt, results_[prompt]);
  }

  const PromptModels& prompt_models_;
  const Prompts& prompts_;
  const GenerateEvents& events_;
  std::vector<Generated> results_;
  Batcher batcher_;
  size_t next_ = 0;
};

}  // namespace

std::vector<Generated> generate(const LoadedModel& loaded, const Prompts& prompts, const GenerateOptions& options,
                                const GenerateEvents& events, const std::string& where) {
  const PromptModel prompt_model{&loaded, options};
  return generate({&prompt_model, 1}, std::vector<size_t>(prompts.size()), prompts, events, where);
}

std::vector<Generated> generate(std::span<const PromptModel> prompt_models, std::span<const size_t> of, const Prompts& prompts,
                                const GenerateEvents& events, const std::string& where) {
  check_prompts(prompt_models, of, prompts, where);
  if (prompts.empty()) return {};
  return Run(PromptModels(prompt_models, of), prompts, prompt_models[0].options, events).all();
}

}  // namespace ravine
