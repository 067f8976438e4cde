#include "model/layers/head.h"

#include "engine/ops/linear.h"
#include "engine/ops/loss_head.h"

namespace ravine {

Flow output_head(Ctx& c, Flow in, const Norm& norm, const Param& weight, bool unit_rows) {
  Tensor x = norm(c, std::move(in)).out;
  Ctx::Scope scope(c, "lm_head");
  if (!c.batch().labels.absent()) {
    loss_head(c, x, weight, unit_rows);
    return {};
  }
  c.output("hidden", x);
  const TensorView& rows = c.batch().logit_rows;
  if (!rows.absent()) {
    Tensor some = c.empty({rows.count(), x.cols()}, x.dtype());
    c.call(EmbeddingForward{.ids = rows, .weight = x.view(), .out = some.view()});
    x = some;
  }
  c.output("logits", logits(c, x, weight, unit_rows));
  return {};
}

}  // namespace ravine
