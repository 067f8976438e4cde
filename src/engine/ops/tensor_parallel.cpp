#include "engine/ops/tensor_parallel.h"

#include "engine/ops/collectives.h"

namespace ravine {

Tensor tp_enter(Ctx& c, Tensor x) {
  if (c.group(Axis::tensor).size() == 1) return x;
  c.record("tp_enter", {}, [xr = x.ref()](Ctx& c) {
    if (c.grads().has(xr)) all_reduce(c, c.group(Axis::tensor), c.grads().get(xr).view());
  });
  return x;
}

Tensor tp_exit(Ctx& c, Tensor x) {
  if (c.group(Axis::tensor).size() > 1) all_reduce(c, c.group(Axis::tensor), x.view());
  return x;
}

}  // namespace ravine
