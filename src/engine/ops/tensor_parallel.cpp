#include "engine/ops/tensor_parallel.h"

#include "engine/ops/collectives.h"

namespace ravine {

Tensor gather_tokens(Ctx& c, const TensorView& part) {
  const Group& group = c.group(Axis::tensor);
  Tensor all = c.empty({part.rows() * group.size(), part.cols()}, part.dtype);
  require(part.contiguous(), "gather_tokens: the part is not in one run");
  group.all_gather(part.data, all.view().data, part.bytes()).wait();
  return all;
}

Tensor scatter_tokens(Ctx& c, const TensorView& x) {
  const Group& group = c.group(Axis::tensor);
  Tensor part = c.empty({div_exact(x.rows(), group.size()), x.cols()}, x.dtype);
  reduce_scatter(c, group, x, part.view());
  return part;
}

Tensor tp_enter(Ctx& c, Tensor x) {
  if (c.group(Axis::tensor).size() == 1) return x;
  if (!c.sequence_parallel()) {
    c.record("tp_enter", {}, [xr = x.ref()](Ctx& c) {
      if (c.grads().has(xr)) all_reduce(c, c.group(Axis::tensor), c.grads().get(xr).view());
    });
    return x;
  }
  Tensor y = gather_tokens(c, x.view());
  if (!c.recording()) return y;
  y.set_rebuild([saved = c.save(x)](Ctx& c) { return gather_tokens(c, saved.get(c).view()); });
  c.record("tp_enter", {y.ref()},
           [xr = x.ref(), yr = y.ref()](Ctx& c) { c.give_grad(xr, scatter_tokens(c, c.grads().get(yr).view())); });
  return y;
}

Tensor tp_exit(Ctx& c, Tensor x) {
  if (c.group(Axis::tensor).size() == 1) return x;
  if (!c.sequence_parallel()) {
    all_reduce(c, c.group(Axis::tensor), x.view());
    return x;
  }
  Tensor y = scatter_tokens(c, x.view());
  c.record("tp_exit", {y.ref()},
           [xr = x.ref(), yr = y.ref()](Ctx& c) { c.give_grad(xr, gather_tokens(c, c.grads().get(yr).view())); });
  return y;
}

}  // namespace ravine
