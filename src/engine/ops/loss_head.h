#pragma once
#include "engine/ctx.h"
#include "engine/ops/linear_params.h"

namespace ravine {

// Output product, softmax and cross-entropy over the batch's labels, in one chunked kernel; in training it runs in the backward
// pass, where it yields loss, dx and dW together. The sum of losses (nats) goes to side "loss", before any division. A loss of
// sequences (Batch::sequence_loss) is asked between two passes: losses first, then gradients with its weights. unit_rows:
// the rows of the weight are brought to length 1 first (NormHead, Baichuan2), in f32, rounded once to the compute type; the
// gradient goes through that. This holds a copy of the weight, and one of its gradient, while the head runs.
// cap: 0, or logits become cap * tanh(logit / cap) (Gemma 2). head: one weight without bias, which outlives the step; an
// adapter has one A, and one B that is cut as the weight is; logits of 1024 tokens at a time are then in memory. Not with
// unit_rows. An Error in backward if x is used elsewhere too.
void loss_head(Ctx& c, const Tensor& x, const LinearParams& head, bool unit_rows = false, double cap = 0);

}  // namespace ravine
