#pragma once
#include "engine/ctx.h"

namespace ravine {

// Output product, softmax and cross-entropy over the batch's labels, in one chunked kernel; in training it runs in the backward pass,
// where it yields loss, dx and dW together. The sum of losses (nats) goes to side "loss", before any division.
void loss_head(Ctx& c, const Tensor& x, const Param& weight);

}  // namespace ravine
