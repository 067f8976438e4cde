#include "engine/ops/rms_norm.h"

namespace ravine {

Normed rms_norm(Ctx& c, Flow in, const Param& weight, double eps) {
  Normed r;
  TensorRef xr = in.x.ref(), br = in.branch ? in.branch.ref() : TensorRef{};
  int64_t rows = in.x.rows(), cols = in.x.cols();
  Tensor rstd = c.empty({rows}, c.types().stat);
  r.out = c.empty({rows, cols}, c.types().compute);
  if (in.branch && !c.fused("add_rms_norm")) {
    r.sum = c.empty({rows, cols}, c.types().residual);
    c.call(Add{in.x.view(), in.branch.view(), r.sum.view()});
    c.call(RmsNormForward{r.sum.view(), {}, c.store().master(weight), {}, r.out.view(), rstd.view(), eps});
  } else {
    // Without a branch the sum is x itself, under a name of its own; with one, x is written over if nobody else holds it.
    r.sum = !in.branch || in.x.unique() ? in.x.renamed() : c.empty({rows, cols}, c.types().residual);
    TensorView sum = in.branch ? r.sum.view() : TensorView{};
    c.call(RmsNormForward{in.x.view(), in.branch.view(), c.store().master(weight), sum, r.out.view(), rstd.view(), eps});
  }
  if (!c.recording()) return r;

  Saved sum = c.save(r.sum), scale = c.save(rstd);
  r.out.set_rebuild([sum, &weight, eps](Ctx& c) {
    Tensor x = sum.get(c), out = c.empty({x.rows(), x.cols()}, c.types().compute), rstd = c.empty({x.rows()}, c.types().stat);
    c.call(RmsNormForward{x.view(), {}, c.store().master(weight), {}, out.view(), rstd.view(), eps});
    return out;
  });
  c.record("rms_norm", {r.out.ref(), r.sum.ref()}, [=, &weight, sr = r.sum.ref(), outr = r.out.ref()](Ctx& c) {
    Grads& g = c.grads();
    Tensor dsum = g.has(sr) ? g.take(sr) : Tensor();
    Tensor dx = dsum, dbranch;
    if (g.has(outr)) {
      Tensor x = sum.get(c), dout = g.take(outr);
      if (!dx || !dsum.unique()) dx = c.empty({x.rows(), x.cols()}, c.types().residual);
      if (br.id && br.dtype != dx.dtype()) dbranch = c.empty(br.shape, br.dtype);
      bool accumulate = false;
      TensorView dweight = c.store().add_to_grad(weight, accumulate);
      c.call(RmsNormBackward{dout.view(), x.view(), c.store().master(weight), scale.get(c).view(), dsum.view(), dx.view(),
                             dbranch.view(), dweight, accumulate});
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
