#pragma once
#include "engine/ctx.h"
#include "engine/ops/linear_params.h"

namespace ravine {

// Logits of the rows of the head that this rank has, x W^T + what adapters add, capped: in the type of statistics, on each of
// several tensor ranks as many as on the first (what lies beyond the vocabulary is padding). unit_rows, cap: as in loss_head.
// Nothing is recorded.
Tensor head_product(Ctx& c, const TensorView& x, const LinearParams& head, bool unit_rows, double cap);

}  // namespace ravine
