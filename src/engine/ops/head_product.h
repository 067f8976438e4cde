#pragma once
#include "engine/ctx.h"
#include "engine/ops/linear_params.h"

namespace ravine {

// Returns the logits of this rank's rows of the head: x W^T plus the adapters' outputs, capped, in the type of
// statistics. Every tensor rank returns as many columns as the first one; columns beyond the vocabulary are padding.
// unit_rows: the rows of W are scaled to length 1 first. cap: logits become cap * tanh(logit / cap); 0: no cap. Nothing
// is recorded.
Tensor head_product(Ctx& c, const TensorView& x, const LinearParams& head, bool unit_rows, double cap);

}  // namespace ravine
