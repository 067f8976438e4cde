#include "engine/ops/layer_norm.h"

namespace ravine {

Normed layer_norm(Ctx& c, Flow in, const Param& weight, const Param& bias, double eps, std::optional<DType> type) {
  Normed r;
  TensorRef xr = in.x.ref(), br = in.branch ? in.branch.ref() : TensorRef{};
  int64_t rows = in.x.rows(), cols = in.x.cols();
  Tensor mean = c.empty({rows}, c.types().stat), rstd = c.empty({rows}, c.types().stat);
  r.out = c.empty({rows, cols}, type.value_or(c.types().compute));
  TensorView w = c.store().master(weight), b = c.store().master(bias);
  if (in.branch && !c.fused("add_layer_norm")) {
    r.sum = c.empty({rows, cols}, c.types().residual);
    c.call(Add{in.x.view(), in.branch.view(), r.sum.view()});
    c.call(LayerNormForward{
        .x = r.sum.view(), .weight = w, .bias = b, .out = r.out.view(), .mean = mean.view(), .rstd = rstd.view(), .eps = eps});
  } else {
    // As in rms_norm: without a branch the sum is x itself; with a branch, x is overwritten if no other handle has its
    // memory.
    r.sum = !in.branch || in.x.unique() ? in.x.renamed() : c.empty({rows, cols}, c.types().residual);
    TensorView sum = in.branch ? r.sum.view() : TensorView{};
    c.call(LayerNormForward{.x = in.x.view(),
                            .branch = in.branch.view(),
                            .weight = w,
                            .bias = b,
                            .sum = sum,
                            .out = r.out.view(),
                            .mean = mean.view(),
                            .rstd = rstd.view(),
                            .eps = eps});
  }
  if (!c.recording()) return r;

  Saved sum = c.save(r.sum), shift = c.save(mean), scale = c.save(rstd);
  // The residual stream is not rebuilt: blocks refer to it by its id.
  if (!type) {
    r.out.set_rebuild([sum, &weight, &bias, eps](Ctx& c) {
      Tensor x = sum.get(c), out = c.empty({x.rows(), x.cols()}, c.types().compute);
      c.call(LayerNormForward{
          .x = x.view(), .weight = c.store().master(weight), .bias = c.store().master(bias), .out = out.view(), .eps = eps});
      return out;
    });
  }
  c.record("layer_norm", {r.out.ref(), r.sum.ref()}, [=, &weight, &bias, sr = r.sum.ref(), outr = r.out.ref()](Ctx& c) {
    Grads& g = c.grads();
    Tensor dsum = g.has(sr) ? g.take(sr) : Tensor();
    Tensor dx = dsum, dbranch;
    if (g.has(outr)) {
      Tensor x = sum.get(c), dout = g.take(outr);
      if (!dx || !dsum.unique()) dx = c.empty({x.rows(), x.cols()}, c.types().residual);
      if (br.id && br.dtype != dx.dtype()) dbranch = c.empty(br.shape, br.dtype);
      bool accumulate = false, more = false;
      TensorView dweight = c.grad_store().add_to_grad(weight, accumulate), dbias = c.grad_store().add_to_grad(bias, more);
      Tensor spare;  // for the frozen one of the two, since the kernel computes both gradients or none
      if (dweight.absent() != dbias.absent()) {
        spare = c.empty({x.cols()}, c.types().master);
        if (accumulate || more) c.call(Fill{spare.view(), 0});
        (dweight.absent() ? dweight : dbias) = spare.view();
        accumulate = more = accumulate || more;
      }
      require(accumulate == more, "layer_norm: gradients of '{}' and its bias were not written together", weight.name);
      c.call(LayerNormBackward{.dout = dout.view(),
                               .x = x.view(),
                               .weight = c.store().master(weight),
                               .mean = shift.get(c).view(),
                               .rstd = scale.get(c).view(),
                               .dsum = dsum.view(),
                               .dx = dx.view(),
                               .dbranch = dbranch.view(),
                               .dweight = dweight,
                               .dbias = dbias,
                               .accumulate = accumulate});
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
