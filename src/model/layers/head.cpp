#include "model/layers/head.h"

#include <cmath>
#include <optional>

#include "engine/ops/linear.h"
#include "engine/ops/loss_head.h"

namespace ravine {

Head::Head(ParamSet& set, Unit& unit, const std::string& name, int64_t vocabulary, int64_t hidden, const HeadSpec& spec,
           double init_std, Param* embedding)
    : spec_(spec), unit_rows_(spec.unit_rows), scope_(name) {
  Param weight{name + ".weight", {vocabulary, hidden}, {{0, Axis::tensor}}, {Init::normal, init_std}};
  if (spec.unit_rows) weight.use = Use::unit_matrix;
  if (spec.tied) weight.tied = embedding;
  weight_ = set.add(unit, weight);
  const std::optional<AdapterSpec> adapter = set.adapter_of ? set.adapter_of(name) : std::nullopt;
  if (!adapter) return;
  Param a{name + ".lora_A.weight", {adapter->rank, hidden}, {}, {Init::uniform, 1 / std::sqrt(static_cast<double>(hidden))}};
  Param b{name + ".lora_B.weight", {vocabulary, adapter->rank}, {{0, Axis::tensor}}, {Init::zeros}};
  a.adapter = b.adapter = true;
  adapter_.a = {set.add(unit, a)};
  adapter_.ups = {{0, set.add(unit, b), 0}};
  adapter_.scale = {adapter->scale}, adapter_.dropout = {adapter->dropout};
}

void Head::operator()(Ctx& c, const Tensor& x) const {
  Ctx::Scope scope(c, scope_);
  if (!c.batch().labels.absent()) {
    loss_head(c, x, *weight_, unit_rows_, spec_.cap, adapter_);
    return;
  }
  c.output("hidden", x);
  const TensorView& rows = c.batch().logit_rows;
  Tensor some = x;
  if (!rows.absent()) {
    some = c.empty({rows.count(), x.cols()}, x.dtype());
    c.call(EmbeddingForward{.ids = rows, .weight = x.view(), .out = some.view()});
  }
  c.output("logits", logits(c, some, *weight_, unit_rows_, spec_.cap, adapter_.empty() ? nullptr : &adapter_));
}

void Head::settle(Ctx& c) {
  if (!spec_.unit_rows) return;
  Lease lease(c.store(), *weight_->unit);
  TensorView w = c.store().master(*weight_);
  c.call(UnitRowsForward{w, w});
  unit_rows_ = false;
}

}  // namespace ravine
