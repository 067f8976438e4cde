#include "infer/speakers.h"

#include <algorithm>

namespace ravine {

Speakers::Speakers(std::span<const Speaker> all, std::span<const size_t> of) : all_(all), of_(of) {
  require(!of.empty(), "speakers: no prompts");
  session_ = all[of[0]].session;
  several_ = std::any_of(of.begin(), of.end(), [&](size_t s) { return all[s].session != session_; });
  if (!several_) return;
  if (session_->base) session_ = session_->base;
  for (const size_t s : of) {
    const Session* one = all[s].session;
    require(one == session_ || (one->base == session_ && one->beside), "speakers: '{}' shares no batch with its base",
            one->adapter);
  }
}

void add_adapter_rows(Batch& batch, const Session& base, const Session& of, const PromptRows& rows) {
  if (&of == &base) return;
  std::vector<AdapterRows>& all = batch.adapters;
  if (all.empty() || all.back().adapters != of.beside || all.back().begin + all.back().count != rows.row)
    all.push_back({rows.row, 0, rows.logit, 0, of.beside, of.store.get()});
  all.back().count += rows.count, all.back().logit_count += rows.logits;
}

}  // namespace ravine
