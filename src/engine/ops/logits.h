#pragma once
#include "engine/ctx.h"
#include "engine/ops/linear_params.h"

namespace ravine {

// Returns the logits of the head, [N,V] for all rows of x, in f32 (f64 in a run of f64). Only for trace and generation;
// training never stores them. unit_rows: the rows of the weight are scaled to length 1 first. cap: logits become cap *
// tanh(logit / cap); 0: no cap.
Tensor logits(Ctx& c, const Tensor& x, const LinearParams& head, bool unit_rows = false, double cap = 0);

}  // namespace ravine
