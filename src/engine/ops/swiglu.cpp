#include "engine/ops/swiglu.h"

#include "engine/ops/gated.h"

namespace ravine {

Tensor swiglu(Ctx& c, const Tensor& gate_up) { return gated<SwigluForward, SwigluBackward>(c, gate_up); }

}  // namespace ravine
