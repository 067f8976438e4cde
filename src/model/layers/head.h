// The last block: final norm and output product.
#pragma once
#include "engine/ctx.h"

namespace ravine {

// With labels: the loss head. Without: outputs "hidden" (all rows, after the norm) and "logits" (the batch's logit_rows).
Flow output_head(Ctx& c, Flow in, const Param& norm, double eps, const Param& weight);

}  // namespace ravine
