// Opens what a config names, and says what is wrong with it before anything is written.
#pragma once
#include <functional>
#include <memory>

#include "config/config.h"
#include "data/dataset.h"
#include "step/step.h"
#include "text/tokenizer.h"

namespace ravine {

// A UserError where a config names no model: for commands that say more before they open it.
void refuse_without_model(const Config& config);

// The model of model.path or model.config with its vocabulary (runs/vocabulary.h), train.freeze and optimizer.groups applied;
// a new one has at least as many ids as model.tokenizer, where that exists. Neither is a UserError; so is a pattern of either
// option that matches nothing, and a run without a parameter to train.
std::unique_ptr<Model> open_run_model(const Config& config);

// A UserError where data.sequence_length is beyond the positions that the model has.
void refuse_long_sequences(const Config& config, const ModelFacts& facts);

// The data of a run. The tokenizer is null where ids suffice.
struct Sources {
  std::unique_ptr<Tokenizer> tokenizer;
  Datasets data;
};
// `progress` is called now and then while text is tokenized.
Sources open_sources(const Config& config, const ModelFacts& facts, std::function<void(const TokenizeProgress&)> progress = {});

}  // namespace ravine
