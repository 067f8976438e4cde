#pragma once
#include "engine/ctx.h"
#include "engine/ops/linear_params.h"

namespace ravine {

// logits [N,V] of all rows, in f32 (f64 where the run is f64): for trace and generation only, training never makes them.
// head, unit_rows, cap: as in loss_head.
Tensor logits(Ctx& c, const Tensor& x, const LinearParams& head, bool unit_rows = false, double cap = 0);

}  // namespace ravine
