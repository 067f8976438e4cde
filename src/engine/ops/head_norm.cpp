#include "engine/ops/head_norm.h"

#include "engine/ops/collectives.h"

namespace ravine {
namespace {

void weight_gradient(Ctx& c, const HeadNormBackward& args, const Param& weight) {
  HeadNormBackward a = args;
  const Group& ranks = c.group(Axis::tensor);
  a.dweight = c.grad_store().add_to_grad(weight, a.accumulate);
  // Each tensor rank has its own heads: a part of the sum. Under sequence parallelism the store sums the gradients of
  // all parameters that are not cut.
  if (ranks.size() == 1 || c.sequence_parallel() || a.dweight.absent()) return c.call(a);
  Tensor part = c.empty({weight.shape[0]}, c.types().master);
  TensorView whole = std::exchange(a.dweight, part.view());
  bool accumulate = std::exchange(a.accumulate, false);
  c.call(a);
  all_reduce(c, ranks, part.view());
  if (accumulate)
    c.call(Add{whole, part.view(), whole});
  else
    c.call(Cast{part.view(), whole});
}

}  // namespace

Tensor head_norm(Ctx& c, const Tensor& x, const Param& weight, double eps) {
  int64_t heads = div_exact(x.cols(), weight.shape[0]);
  Tensor out = c.empty({x.rows(), x.cols()}, c.types().compute), rstd = c.empty({x.rows(), heads}, c.types().stat);
  c.call(
      HeadNormForward{.x = x.view(), .weight = c.store().master(weight), .out = out.view(), .rstd = rstd.view(), .eps = eps});
  if (!c.recording()) return out;
  c.record("head_norm", {out.ref()},
           [&weight, saved = c.save(x), scale = c.save(rstd), xr = x.ref(), outr = out.ref()](Ctx& c) {
             bool accumulate = false;
             Tensor dout = c.grads().take(outr), dx = c.grads().add_to(xr, accumulate);
             require(!accumulate, "head_norm: its input must be used by it only");
             weight_gradient(
                 c, {dout.view(), saved.get(c).view(), c.store().master(weight), scale.get(c).view(), dx.view(), {}}, weight);
           });
  return out;
}

}  // namespace ravine
