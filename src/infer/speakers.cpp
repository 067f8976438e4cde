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

void Speakers::add_rows(Batch& batch, size_t prompt, int64_t row, int64_t count, int64_t logit, int64_t logits) const {
  const Session* session = all_[of_[prompt]].session;
  if (session == session_) return;
  std::vector<AdapterRows>& all = batch.adapters;
  if (all.empty() || all.back().adapters != session->beside || all.back().begin + all.back().count != row)
    all.push_back({row, 0, logit, 0, session->beside, session->store.get()});
  all.back().count += count, all.back().logit_count += logits;
}

}  // namespace ravine
