#include "engine/ops/soft_cap.h"

namespace ravine {

void soft_cap(Ctx& c, const TensorView& y, double cap) {
  if (cap != 0) c.call(SoftCapForward{.x = y, .y = y, .cap = cap});
}

}  // namespace ravine
