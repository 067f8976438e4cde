// Models that answer prompts which go through one model together. A base and models loaded beside it may share batches
// (LoadedModel::beside): the base's model runs, its weights are read once for all rows of a step, and the rows of each prompt go
// through its own adapters besides.
#pragma once
#include <span>

#include "infer/prompt_model.h"

namespace ravine {

// Rows of a batch, and those of its logit_rows, that belong to one prompt.
struct PromptRows {
  int64_t row = 0, count = 0, logit = 0, logits = 0;  // [row, row + count), [logit, logit + logits)
};

// These rows go through the adapters of `of` where it stands beside `base`, whose model runs. Rows come in order; those of one
// model should lie together.
void add_adapter_rows(Batch& batch, const LoadedModel& base, const LoadedModel& of, const PromptRows& rows);

class PromptModels {
 public:
  // of: the model of each prompt. Two models that do not share batches are an Error.
  PromptModels(std::span<const PromptModel> all, std::span<const size_t> of);

  const LoadedModel& loaded() const { return *loaded_; }  // whose model runs: the base of several, or that of the only one
  bool several() const { return several_; }
  size_t at(size_t prompt) const { return of_[prompt]; }
  const GenerateOptions& options(size_t prompt) const { return all_[of_[prompt]].options; }

  const PromptModel& prompt_model(size_t prompt) const { return all_[of_[prompt]]; }

 private:
  std::span<const PromptModel> all_;
  std::span<const size_t> of_;
  const LoadedModel* loaded_ = nullptr;
  bool several_ = false;
};

}  // namespace ravine
