#include "engine/ops/rope.h"

namespace ravine {

void rope(Ctx& c, const Tensor& x, const TensorView& table, int64_t heads) {
  require(c.batch().max_position <= table.rows(), "rope: position {} is beyond the table of {}", c.batch().max_position - 1, table.rows());
  c.call(Rope{x.view(), c.batch().positions, table, heads, false});
  c.record("rope", {}, [xr = x.ref(), table, heads](Ctx& c) {
    if (c.grads().has(xr)) c.call(Rope{c.grads().get(xr).view(), c.batch().positions, table, heads, true});
  });
}

}  // namespace ravine
