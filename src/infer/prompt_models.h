// Several models that answer prompts in shared batches. A base and the models loaded beside it may share batches
// (LoadedModel::adapters). The base's model runs, so its weights are read once for all rows of a step. The rows of a
// prompt also run through the adapters of its model.
#pragma once
#include <span>

#include "infer/prompt_model.h"

namespace ravine {

// The range of rows of a batch that belong to one prompt, and the range of its entries in Batch::logit_rows.
struct PromptRows {
  int64_t row = 0, count = 0, logit = 0, logits = 0;  // [row, row + count), [logit, logit + logits)
};

// Lets these rows of the batch use the adapters of `of`, if `of` was loaded beside `base`; the model of `base` runs the
// batch. Does nothing if `of` is `base`. Rows are added in ascending order. Rows of one model should be adjacent, so
// that they form one entry.
void add_adapter_rows(Batch& batch, const LoadedModel& base, const LoadedModel& of, const PromptRows& rows);

class PromptModels {
 public:
  // all: the models that share batches; of: for each prompt the index of its model. Two models that cannot share
  // batches are an Error.
  PromptModels(std::span<const PromptModel> all, std::span<const size_t> of);

  // Returns the model that runs the shared batches: the base if there are several models, else the only model.
  const LoadedModel& loaded() const { return *loaded_; }
  bool several() const { return several_; }
  // Returns the index of the model that answers prompt number `prompt`.
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
