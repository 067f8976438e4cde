// The last block: final norm and output product.
#pragma once
#include "model/layers/norm.h"

namespace ravine {

// With labels: the loss head. Without: outputs "hidden" (all rows, after the norm) and "logits" (the batch's logit_rows).
// unit_rows: as in loss_head.
Flow output_head(Ctx& c, Flow in, const Norm& norm, const Param& weight, bool unit_rows = false);

}  // namespace ravine
