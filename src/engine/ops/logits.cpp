#include "engine/ops/logits.h"

#include "engine/ops/head_product.h"
#include "engine/ops/vocabulary_parallel.h"

namespace ravine {

Tensor logits(Ctx& c, const Tensor& x, const LinearParams& head, bool unit, double cap) {
  return c.group(Axis::tensor).size() > 1 ? logits_parallel(c, x, head, unit, cap) : head_product(c, x.view(), head, unit, cap);
}

}  // namespace ravine
