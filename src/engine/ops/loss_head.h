#pragma once
#include "engine/ctx.h"
#include "engine/ops/linear_params.h"

namespace ravine {

// Runs the loss head: output product, softmax and cross-entropy over the batch's labels, in one chunked kernel. In
// training it runs in the backward pass, and computes loss, dx and dW together. The sum of the losses (nats, not
// divided) is added to StepSum::loss. An Error in the backward pass if another op reads x.
//
// A loss of sequences (Batch::sequence_loss) takes two passes: first the losses, then the gradients with its weights.
// unit_rows: the rows of the weight are scaled to length 1 first (NormHead, Baichuan2), in f32, and rounded once to the
// compute type. The gradient passes through the scaling. A copy of the weight and of its gradient exists while the head
// runs. cap: 0, or logits become cap * tanh(logit / cap) (Gemma 2). head: one weight without bias, which outlives the
// step. An adapter has one A and one B, which is cut as the weight is. With an adapter the logits of 1024 tokens at a
// time are in memory. An adapter with unit_rows is an Error.
void loss_head(Ctx& c, const Tensor& x, const LinearParams& head, bool unit_rows = false, double cap = 0);

}  // namespace ravine
