#include "engine/ops/row_norm.h"

#include "engine/ops/collectives.h"
#include "engine/ops/head_norm.h"

namespace ravine {

Tensor row_norm(Ctx& c, const Tensor& x, const Param& weight, double eps) {
  const Group& ranks = c.group(Axis::tensor);
  if (ranks.size() == 1) return head_norm(c, x, weight, eps);  // one head as wide as the row
  const int64_t width = x.cols() * ranks.size();
  Tensor out = c.empty({x.rows(), x.cols()}, c.types().compute), rstd = c.empty({x.rows()}, c.types().stat);
  {
    Tensor squares = c.empty({x.rows()}, c.types().stat);
    c.call(RowDot{.x = x.view(), .y = x.view(), .out = squares.view()});
    all_reduce(c, ranks, squares.view());
    c.call(PartNormForward{.x = x.view(),
                           .weight = c.store().master(weight),
                           .squares = squares.view(),
                           .out = out.view(),
                           .rstd = rstd.view(),
                           .width = width,
                           .eps = eps});
  }
  if (!c.recording()) return out;
  c.record("row_norm", {out.ref()},
           [&weight, width, saved = c.save(x), scale = c.save(rstd), xr = x.ref(), outr = out.ref()](Ctx& c) {
             bool taken = false, accumulate = false;
             Tensor dout = c.grads().take(outr), dx = c.grads().add_to(xr, taken), x = saved.get(c);
             require(!taken, "row_norm: its input must be used by it only");
             Tensor dots = c.empty({x.rows()}, c.types().stat);
             const TensorView w = c.store().master(weight);
             c.call(RowDot{.x = x.view(), .y = dout.view(), .weight = w, .out = dots.view()});
             all_reduce(c, c.group(Axis::tensor), dots.view());
             TensorView dweight = c.grad_store().add_to_grad(weight, accumulate);
             c.call(PartNormBackward{.dout = dout.view(),
                                     .x = x.view(),
                                     .weight = w,
                                     .rstd = scale.get(c).view(),
                                     .dots = dots.view(),
                                     .dx = dx.view(),
                                     .dweight = dweight,
                                     .width = width,
                                     .accumulate = accumulate});
           });
  return out;
}

}  // namespace ravine
