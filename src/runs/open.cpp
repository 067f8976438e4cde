#include "runs/open.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "base/text.h"
#include "data/open_datasets.h"
#include "files/convert.h"
#include "io/adapter_weights.h"
#include "io/huggingface.h"
#include "io/model_folder.h"
#include "parallel/initialise.h"
#include "runs/adapter.h"
#include "runs/vocabulary.h"
#include "step/experts.h"
#include "text/tokenizers/open_tokenizer.h"

namespace ravine {

void refuse_without_model(const Config& c) {
  if (c.model.path.empty() && c.model.config.empty())
    throw UserError("no model", "model.path, model.config", "one of them must be given",
                    "set model.path=FOLDER to train stored weights, or model.config=FILE.json to start from random ones");
}

namespace {

// Throws a UserError if log.local_norms matches no trained parameter.
void refuse_idle_norms(const Config& c, const Model& model) {
  const std::string& pattern = c.log.local_norms;
  const auto& params = model.params().params();
  auto matches = [&](const std::string& p) {
    return std::find_if(params.begin(), params.end(),
                        [&](const Param& x) { return x.policy.trainable && glob_match(p, x.name); });
  };
  if (pattern.empty() || matches(pattern) != params.end()) return;
  std::string word = pattern;
  std::erase_if(word, [](char x) { return x == '*' || x == '?'; });
  const auto likely = matches("*" + word + "*");
  throw UserError("pattern matches no parameter", fmt::format("log.local_norms='{}'", pattern),
                  "it must match the whole name of at least one parameter that is trained",
                  likely == params.end()
                      ? "a pattern is for example 'model.layers.0.*'; `ravine info` lists the names of a model"
                      : fmt::format("write '*{}*', which matches {}", word, likely->name));
}

void refuse_strange_config(const Config& c) {
  if (!is_inline(c.model.config)) check_model_config(c.model.config);
}

}  // namespace

std::unique_ptr<Model> open_run_model(const Config& c) {
  refuse_without_model(c);
  if (c.model.path.empty())
    refuse_strange_config(c), refuse_vocabulary_of_new_model(c);
  else
    check_model_folder(c.model.path, "model.path");
  std::unique_ptr<Model> model =
      c.model.path.empty() ? make_model(new_model_config(c), model_label(c.model)) : open_resized_model(c);
  model = with_experts(std::move(model), c);
  if (const auto lora = lora_of(c, *model)) {
    model = with_adapters(*model, *lora);
    if (!c.lora.path.empty()) check_adapter(c.lora.path, *model);
    refuse_lost_tables(c, *model);
    if (c.lora.base) keep_base(*model, *c.lora.base);
  }
  auto given = [&](const std::string& option) {
    const auto source = c.sources.find(option);
    return source == c.sources.end() || source->second == "command line" ? "" : ", " + source->second;
  };
  std::vector<ParamRule> rules;
  for (const std::string& f : c.train.freeze)
    rules.push_back({.match = f, .freeze = true, .option = "train.freeze", .given = given("train.freeze")});
  for (size_t i = 0; i < c.optimizer.groups.size(); ++i) {
    const ParamGroup& g = c.optimizer.groups[i];
    rules.push_back({.match = g.match,
                     .lr_mult = g.lr_mult,
                     .wd_mult = g.wd_mult,
                     .from_step = g.from_step,
                     .option = fmt::format("optimizer.groups[{}].match", i),
                     .given = given("optimizer.groups")});
  }
  apply_rules(model->params(), rules);
  refuse_idle_norms(c, *model);
  if (const auto& all = model->params().params();
      std::none_of(all.begin(), all.end(), [](const Param& p) { return p.policy.trainable; }))
    throw UserError("nothing is left to train", fmt::format("train.freeze={}", c.train.freeze),
                    "it freezes every parameter of the model", "leave some out of it");
  int64_t first = 0;
  for (const Param& p : model->params().params())
    if (p.policy.trainable && !p.tied) first = first == 0 ? p.policy.from_step : std::min(first, p.policy.from_step);
  if (first > 1)
    throw UserError("nothing trains in the first step", fmt::format("optimizer.groups{}", given("optimizer.groups")),
                    fmt::format("every trained parameter has a from_step above 1, the earliest is {}", first),
                    "leave from_step out for some of them");
  return model;
}

void refuse_long_sequences(const Config& c, const ModelFacts& facts) {
  // each answer has half of a sequence, with positions from 0
  const bool pairs = c.train.objective == TrainObjective::dpo;
  const int64_t most = facts.max_positions * (pairs ? 2 : 1);
  if (most > 0 && c.data.sequence_length > most)
    throw UserError(fmt::format("data.sequence_length is {}", c.data.sequence_length), "data.sequence_length",
                    fmt::format("the model has max_position_embeddings = {}{}", facts.max_positions,
                                pairs ? ", and each answer of a pair has half of a sequence" : ""),
                    fmt::format("set data.sequence_length={} or less, or change the model's config", most));
}

Sources open_sources(const Config& c, const ModelFacts& facts, std::function<void(const TokenizeProgress&)> progress) {
  Sources s;
  DatasetOptions data = dataset_options(c, facts.vocabulary);
  data.max_positions = facts.max_positions;
  data.progress = std::move(progress);
  std::string where = c.model.tokenizer.empty() ? c.model.path : c.model.tokenizer;
  if (needs_tokenizer(data)) {
    if (where.empty())
      throw UserError("no tokenizer", "model.tokenizer", "text data needs one",
                      "set model.tokenizer to a tokenizer.model or its folder");
    s.tokenizer = open_tokenizer(where);
    if (const std::string problem = vocabulary_problem(s.tokenizer->size(), facts.vocabulary); !problem.empty())
      throw UserError(problem, where, "every id must have a row in the embedding",
                      c.model.path.empty()
                          ? "use the tokenizer of this model, or a config with a larger vocab_size"
                          : "set model.vocabulary=-1 to give each id a row, or use the tokenizer of this model");
  }
  refuse_long_sequences(c, facts);
  s.data = open_datasets(data, s.tokenizer.get());
  if (c.model.path.empty())
    if (const int64_t had = run_vocabulary(c, requested_model_config(c), 0); had != facts.vocabulary)
      s.data.notes.push_back(fmt::format("the new model has the {} ids of the tokenizer, not the {} of {}", facts.vocabulary,
                                         had, model_label(c.model)));
  return s;
}

}  // namespace ravine
