#include "infer/prompt_models.h"

#include <algorithm>

namespace ravine {

PromptModels::PromptModels(std::span<const PromptModel> all, std::span<const size_t> of) : all_(all), of_(of) {
  require(!of.empty(), "prompt models: no prompts");
  loaded_ = all[of[0]].loaded;
  several_ = std::any_of(of.begin(), of.end(), [&](size_t s) { return all[s].loaded != loaded_; });
  if (!several_) return;
  if (loaded_->base) loaded_ = loaded_->base;
  for (const size_t s : of) {
    const LoadedModel* one = all[s].loaded;
    require(one == loaded_ || (one->base == loaded_ && one->adapters), "prompt models: '{}' shares no batch with its base",
            one->adapter);
  }
}

void add_adapter_rows(Batch& batch, const LoadedModel& base, const LoadedModel& of, const PromptRows& rows) {
  if (&of == &base) return;
  std::vector<AdapterRows>& all = batch.adapters;
  if (all.empty() || all.back().adapters != of.adapters || all.back().begin + all.back().count != rows.row)
    all.push_back({rows.row, 0, rows.logit, 0, of.adapters, of.store.get()});
  all.back().count += rows.count, all.back().logit_count += rows.logits;
}

}  // namespace ravine
