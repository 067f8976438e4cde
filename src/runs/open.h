// Opens the model and the data of a config. A mistake is reported before anything is written.
#pragma once
#include <functional>
#include <memory>

#include "config/config.h"
#include "data/dataset.h"
#include "step/step.h"
#include "text/tokenizer.h"

namespace ravine {

// Throws a UserError if a config names no model. For commands that print more before they open the model.
void refuse_without_model(const Config& config);

// Returns the model of model.path or model.config, with its vocabulary (runs/vocabulary.h), train.freeze and
// optimizer.groups applied. A new model has at least as many ids as model.tokenizer, if that exists. UserErrors: no
// model; a pattern of these options matches nothing; no parameter is trained.
std::unique_ptr<Model> open_run_model(const Config& config);

// Throws a UserError if data.sequence_length is above the number of positions of the model.
void refuse_long_sequences(const Config& config, const ModelFacts& facts);

// The data of a run. The tokenizer is null if the data are token ids.
struct Sources {
  std::unique_ptr<Tokenizer> tokenizer;
  Datasets data;
};
// Opens tokenizer and data. `progress` is called regularly while text is tokenized.
Sources open_sources(const Config& config, const ModelFacts& facts, std::function<void(const TokenizeProgress&)> progress = {});

}  // namespace ravine
