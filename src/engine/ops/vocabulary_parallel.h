// The two ops whose table is cut over the vocabulary: each tensor rank has a range of rows. embedding() and loss_head()
// call these if there is more than one tensor rank.
#pragma once
#include "engine/ctx.h"
#include "engine/ops/linear_params.h"

namespace ravine {

// Returns the embeddings of the batch's ids from a table cut over tensor ranks. Each rank fills the embeddings of ids
// in its own rows and has zeros elsewhere; the results are summed over tensor ranks. The sum is exact, since only one
// addend is not zero.
Tensor embedding_parallel(Ctx& c, const Param& table, int64_t padding_id, double scale);

// Runs the loss head with a weight cut over tensor ranks. Computes one chunk of tokens at a time: the logits of the
// local rows and their logsumexp, which tensor ranks exchange; from these the losses of local labels and the gradient
// (kernels/loss.h). dx is summed over tensor ranks. The rank that has a label adds its loss to StepSum::loss, so each
// label is added once. unit_rows, cap: as in loss_head, which also calls this function if the head has an adapter, on
// one rank too.
void loss_head_parallel(Ctx& c, const Tensor& x, const LinearParams& head, bool unit_rows, double cap);

// Returns the logits [N, V] of all tokens and the whole vocabulary, on every tensor rank, from a head cut over these
// ranks. x: the local tokens. unit_rows, cap: as in loss_head.
Tensor logits_parallel(Ctx& c, const Tensor& x, const LinearParams& head, bool unit_rows, double cap);

}  // namespace ravine
