#include "engine/ops/geglu.h"

#include "engine/ops/gated.h"

namespace ravine {

Tensor geglu(Ctx& c, const Tensor& gate_up) { return gated<GegluForward, GegluBackward>(c, gate_up); }

}  // namespace ravine
