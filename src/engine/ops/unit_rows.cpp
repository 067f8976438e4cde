#include "engine/ops/unit_rows.h"

namespace ravine {

Tensor unit_rows(Ctx& c, const Param& weight) {
  TensorView from = c.store().master(weight);
  Tensor w = c.empty({from.rows(), from.cols()}, c.types().compute);
  c.call(UnitRowsForward{from, w.view()});
  return w;
}

}  // namespace ravine
