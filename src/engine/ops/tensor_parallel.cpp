#include "engine/ops/tensor_parallel.h"

namespace ravine {

Tensor tp_enter(Ctx& c, Tensor x) {
  if (c.group(Axis::tensor).size() == 1) return x;
  c.record("tp_enter", {}, [xr = x.ref()](Ctx& c) {
    if (c.grads().has(xr)) c.group(Axis::tensor).all_reduce(c.grads().get(xr).view());
  });
  return x;
}

Tensor tp_exit(Ctx& c, Tensor x) {
  if (c.group(Axis::tensor).size() > 1) c.group(Axis::tensor).all_reduce(x.view());
  return x;
}

}  // namespace ravine
