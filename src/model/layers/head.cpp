#include "model/layers/head.h"

#include "engine/ops/logits.h"
#include "engine/ops/loss_head.h"

namespace ravine {

static Param declared(const std::string& name, int64_t vocabulary, int64_t hidden, const HeadSpec& spec, double init_std,
                      Param* embedding) {
  Param weight{name + ".weight", {vocabulary, hidden}, {{0, Axis::tensor}}, {Init::normal, init_std}};
  weight.head = true;
  if (spec.unit_rows) weight.use = Use::unit_matrix;
  if (spec.tied) weight.tied = embedding;
  return weight;
}

Head::Head(ParamSet& set, Unit& unit, const std::string& name, int64_t vocabulary, int64_t hidden, const HeadSpec& spec,
           double init_std, Param* embedding)
    : spec_(spec),
      product_(set, unit, name, declared(name, vocabulary, hidden, spec, init_std, embedding)),
      unit_rows_(spec.unit_rows),
      scope_(name) {}

void Head::operator()(Ctx& c, const Tensor& x) const {
  Ctx::Scope scope(c, scope_);
  if (!c.batch().labels.absent()) {
    loss_head(c, x, product_.params(), unit_rows_, spec_.cap);
    return;
  }
  c.output("hidden", x);
  const TensorView& rows = c.batch().logit_rows;
  Tensor some = x;
  if (!rows.absent()) {
    some = c.empty({rows.count(), x.cols()}, x.dtype());
    c.call(EmbeddingForward{.ids = rows, .weight = x.view(), .out = some.view()});
  }
  c.output("logits", logits(c, some, product_.params(), unit_rows_, spec_.cap));
}

void Head::prepare_weights(Ctx& c) {
  if (!spec_.unit_rows) return;
  const Param& weight = *product_.params().weights[0];
  Lease lease(c.store(), *weight.unit);
  TensorView w = c.store().master(weight);
  c.call(UnitRowsForward{w, w});
  unit_rows_ = false;
}

}  // namespace ravine
