// Gradients of parameters that are cut into fewer parts than there are tensor ranks (key/value heads). Neighbouring
// ranks hold the same part. Each rank computes the gradient of its own query heads.
#pragma once
#include "engine/ctx.h"
#include "engine/flat.h"

namespace ravine {

// Sums the gradient of every replicated part over its ranks, neighbours first. The result is the same on each rank.
// `grad` holds elements `range` of the bucket. All tensor ranks call it together, with the same range.
void sum_replicas(Ctx& c, const Group& tensor, const Bucket& bucket, Range range, const TensorView& grad);

}  // namespace ravine
