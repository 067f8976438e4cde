// Opens the model and the data of a config. A mistake is reported before anything is written.
#pragma once
#include <functional>
#include <memory>

#include "config/config.h"
#include "data/dataset.h"
#include "step/step.h"
#include "text/tokenizer.h"

namespace ravine {

// Throws a UserError if a config names no model. For commands that print other output before they open the model.
void refuse_without_model(const Config& config);

// Opens the model of a run from model.path or model.config, without its weights. Its vocabulary (runs/vocabulary.h),
// train.freeze and optimizer.groups are applied. A new model has at least as many ids as model.tokenizer, if that
// exists. UserErrors: no model; a pattern of these options matches nothing; no parameter is trained.
std::unique_ptr<Model> open_run_model(const Config& config);

// Throws a UserError if data.sequence_length is above the number of positions of the model (for preference pairs: above
// twice this number).
void refuse_long_sequences(const Config& config, const ModelFacts& facts);

// The tokenizer and the datasets of a run, opened by open_sources. The tokenizer is null if the data are token ids.
struct Sources {
  std::unique_ptr<Tokenizer> tokenizer;
  Datasets data;
};
// Opens the tokenizer and the datasets (training, validation) of a run. `progress` is called regularly while text is
// tokenized.
Sources open_sources(const Config& config, const ModelFacts& facts, std::function<void(const TokenizeProgress&)> progress = {});

}  // namespace ravine
