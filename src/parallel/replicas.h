// Gradients of parameters that are cut into fewer parts than there are tensor ranks (key/value heads). Neighbouring
// ranks hold the same part. Each rank computes the gradient of its own query heads.
#pragma once
#include "engine/ctx.h"
#include "engine/flat.h"

namespace ravine {

// Sums gradients of parameters whose parts several tensor ranks hold (key/value heads): each part over the ranks that
// hold it, neighbours first. The result is the same on each of these ranks. `grad` holds elements `range` of the
// bucket. All tensor ranks call it together, with the same range.
void sum_replicas(Ctx& c, const Group& tensor, const Bucket& bucket, Range range, const TensorView& grad);

}  // namespace ravine
