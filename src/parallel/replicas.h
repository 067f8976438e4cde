// Parameters that are cut into fewer parts than there are tensor ranks (key/value heads): neighbours hold the same part, and
// each finds what its own query heads add to the gradient.
#pragma once
#include "engine/ctx.h"
#include "engine/flat.h"

namespace ravine {

// Makes the gradient of every such part the sum over its ranks, neighbours first, the same on each. `grad` holds elements
// `range` of the bucket. All tensor ranks call it with the same range.
void sum_replicas(Ctx& c, const Group& tensor, const Bucket& bucket, Range range, const TensorView& grad);

}  // namespace ravine
