#include "engine/ops/rms_norm.h"

namespace ravine {

Normed rms_norm(Ctx& c, Flow in, const Param& weight, double eps, double offset) {
  Normed r;
  TensorRef xr = in.x.ref(), br = in.branch ? in.branch.ref() : TensorRef{};
  int64_t rows = in.x.rows(), cols = in.x.cols();
  Tensor rstd = c.empty({rows}, c.types().stat);
  r.out = c.empty({rows, cols}, c.types().compute);
  if (in.branch && !c.fused("add_rms_norm")) {
    r.sum = c.empty({rows, cols}, c.types().residual);
    c.call(Add{in.x.view(), in.branch.view(), r.sum.view()});
    c.call(RmsNormForward{.x = r.sum.view(),
                          .weight = c.store().master(weight),
                          .out = r.out.view(),
                          .rstd = rstd.view(),
                          .eps = eps,
                          .offset = offset});
  } else {
    // Without a branch the sum is x itself, under a new id. With a branch, x is overwritten if no other handle has its
    // memory.
    r.sum = !in.branch || in.x.unique() ? in.x.renamed() : c.empty({rows, cols}, c.types().residual);
    TensorView sum = in.branch ? r.sum.view() : TensorView{};
    c.call(RmsNormForward{.x = in.x.view(),
                          .branch = in.branch.view(),
                          .weight = c.store().master(weight),
                          .sum = sum,
                          .out = r.out.view(),
                          .rstd = rstd.view(),
                          .eps = eps,
                          .offset = offset});
  }
  if (!c.recording()) return r;

  Saved sum = c.save(r.sum), scale = c.save(rstd);
  r.out.set_rebuild([sum, &weight, eps, offset](Ctx& c) {
    Tensor x = sum.get(c), out = c.empty({x.rows(), x.cols()}, c.types().compute), rstd = c.empty({x.rows()}, c.types().stat);
    c.call(RmsNormForward{.x = x.view(),
                          .weight = c.store().master(weight),
                          .out = out.view(),
                          .rstd = rstd.view(),
                          .eps = eps,
                          .offset = offset});
    return out;
  });
  c.record("rms_norm", {r.out.ref(), r.sum.ref()}, [=, &weight, sr = r.sum.ref(), outr = r.out.ref()](Ctx& c) {
    Grads& g = c.grads();
    Tensor dsum = g.has(sr) ? g.take(sr) : Tensor();
    Tensor dx = dsum, dbranch;
    if (g.has(outr)) {
      Tensor x = sum.get(c), dout = g.take(outr);
      if (!dx || !dsum.unique()) dx = c.empty({x.rows(), x.cols()}, x.dtype());
      if (br.id && br.dtype != dx.dtype()) dbranch = c.empty(br.shape, br.dtype);
      bool accumulate = false;
      TensorView dweight = c.grad_store().add_to_grad(weight, accumulate);
      c.call(RmsNormBackward{.dout = dout.view(),
                             .x = x.view(),
                             .weight = c.store().master(weight),
                             .rstd = scale.get(c).view(),
                             .dsum = dsum.view(),
                             .dx = dx.view(),
                             .dbranch = dbranch.view(),
                             .dweight = dweight,
                             .accumulate = accumulate,
                             .offset = offset});
    } else if (br.id && br.dtype != dx.dtype()) {
      dbranch = c.empty(br.shape, br.dtype);
      c.call(Cast{dx.view(), dbranch.view()});
    }
    dsum = Tensor();
    if (br.id) c.give_grad(br, dbranch ? dbranch : dx);
    c.give_grad(xr, dx);
  });
  return r;
}

}  // namespace ravine
