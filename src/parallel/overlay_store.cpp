#include "parallel/overlay_store.h"

#include <algorithm>
#include <set>

namespace ravine {

OverlayStore::OverlayStore(ParamSet& params, ParamSet& base_params, WeightSource& base, const Types& types, DeviceKind device,
                           const Ranks& ranks, const std::vector<int>& stages)
    : params_(params), base_(base), at_base_(params.params().size()) {
  require(params.units().size() == base_params.units().size(), "store: {} units beside a base of {}", params.units().size(),
          base_params.units().size());
  for (size_t u = 0; u < params.units().size(); ++u) {
    const Unit& there = base_params.units()[u];
    require(params.units()[u].name == there.name, "store: unit '{}' beside '{}'", params.units()[u].name, there.name);
    units_.push_back(&there);
  }
  auto differs = [&](const Param& p) {
    const Param* there = base_params.find(p.name);
    return p.policy.trainable || !there || there->shape != p.shape;
  };
  std::set<int> joined_with_own;  // products read joined parameters as one matrix, so all of them are stored here
  for (const Param& p : params.params())
    if (p.join != 0 && differs(p)) joined_with_own.insert(p.join);
  for (const Param& p : params.params())
    if (!p.tied && !differs(p) && !joined_with_own.contains(p.join)) at_base_[p.index] = base_params.find(p.name);
  own_ = std::make_unique<InferenceStore>(params, types, device, ranks, stages, [&](const Param& p) { return owns(p); });
}

size_t OverlayStore::owned() const {
  return static_cast<size_t>(
      std::count_if(params_.params().begin(), params_.params().end(), [&](const Param& p) { return !p.tied && owns(p); }));
}

std::vector<const Param*> OverlayStore::params_in(const TensorView& view) const {
  std::vector<const Param*> out = own_->params_in(view);
  return out.empty() ? base_.params_in(view) : out;
}

}  // namespace ravine
