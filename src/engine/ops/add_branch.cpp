#include "engine/ops/add_branch.h"

namespace ravine {

Normed add_branch(Ctx& c, Flow in) {
  Normed r;
  TensorRef xr = in.x.ref(), br = in.branch ? in.branch.ref() : TensorRef{};
  r.sum = !in.branch || in.x.unique() ? in.x.renamed() : c.empty({in.x.rows(), in.x.cols()}, c.types().residual);
  if (in.branch) c.call(Add{in.x.view(), in.branch.view(), r.sum.view()});
  if (c.types().compute == c.types().residual) {
    r.out = r.sum.renamed();
  } else {
    r.out = c.empty({r.sum.rows(), r.sum.cols()}, c.types().compute);
    c.call(Cast{r.sum.view(), r.out.view()});
  }
  c.record("add_branch", {r.out.ref(), r.sum.ref()}, [xr, br, sr = r.sum.ref(), outr = r.out.ref()](Ctx& c) {
    Grads& g = c.grads();
    Tensor dx = g.has(sr) ? g.take(sr) : Tensor(), dout = g.has(outr) ? g.take(outr) : Tensor();
    if (dout) {
      Tensor sum = dx && dx.unique() ? dx : c.empty(xr.shape, xr.dtype);
      if (dx)
        c.call(Add{dx.view(), dout.view(), sum.view()});
      else
        c.call(Cast{dout.view(), sum.view()});
      dx = sum;
    }
    if (br.id && br.dtype != dx.dtype()) {
      Tensor dbranch = c.empty(br.shape, br.dtype);
      c.call(Cast{dx.view(), dbranch.view()});
      c.give_grad(br, dbranch);
    } else if (br.id) {
      c.give_grad(br, dx);
    }
    c.give_grad(xr, dx);
  });
  return r;
}

}  // namespace ravine
