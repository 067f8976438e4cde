#pragma once
#include "engine/ctx.h"
#include "engine/ops/linear_params.h"

namespace ravine {

// Returns logits [N,V] of all rows, in f32 (f64 in a run of f64). Only for trace and generation; training never stores
// them. head, unit_rows, cap: as in loss_head.
Tensor logits(Ctx& c, const Tensor& x, const LinearParams& head, bool unit_rows = false, double cap = 0);

}  // namespace ravine
