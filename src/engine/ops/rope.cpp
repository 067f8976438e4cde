#include "engine/ops/rope.h"

namespace ravine {

void rope(Ctx& c, const Tensor& x, const TensorView& table, int64_t heads) {
  require(c.batch().max_position <= table.rows(), "rope: position {} is beyond the table of {}", c.batch().max_position - 1, table.rows());
  c.call(Rope{.x = x.view(), .positions = c.batch().positions, .table = table, .heads = heads});
  c.record("rope", {}, [xr = x.ref(), table, heads](Ctx& c) {
    if (c.grads().has(xr)) c.call(Rope{.x = c.grads().get(xr).view(), .positions = c.batch().positions, .table = table, .heads = heads,
                                       .inverse = true});
  });
}

}  // namespace ravine
