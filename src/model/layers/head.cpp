#include "model/layers/head.h"

#include "engine/ops/linear.h"
#include "engine/ops/loss_head.h"
#include "engine/ops/rms_norm.h"

namespace ravine {

Flow output_head(Ctx& c, Flow in, const Param& norm, double eps, const Param& weight) {
  Tensor x;
  {
    Ctx::Scope scope(c, "model.norm");
    x = rms_norm(c, std::move(in), norm, eps).out;
  }
  Ctx::Scope scope(c, "lm_head");
  if (!c.batch().labels.absent()) {
    loss_head(c, x, weight);
    return {};
  }
  c.output("hidden", x);
  const TensorView& rows = c.batch().logit_rows;
  if (!rows.absent()) {
    Tensor some = c.empty({rows.count(), x.cols()}, x.dtype());
    c.call(EmbeddingForward{rows, x.view(), some.view()});
    x = some;
  }
  c.output("logits", logits(c, x, weight));
  return {};
}

}  // namespace ravine
