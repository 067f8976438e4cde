// The two ops whose table is cut over the vocabulary: each tensor rank has a range of rows. embedding() and loss_head()
// call these if there is more than one tensor rank.
#pragma once
#include "engine/ctx.h"
#include "engine/ops/linear_params.h"

namespace ravine {

// Returns the embeddings of the batch's ids. Each rank fills the ids in its own rows and has zeros elsewhere; then a
// sum over tensor ranks. The sum is exact, since only one addend is not zero.
Tensor embedding_parallel(Ctx& c, const Param& table, int64_t padding_id, double scale);

// Computes one chunk of tokens at a time: the logits of the local rows and their logsumexp, which tensor ranks
// exchange; from these the losses of local labels and the gradient (kernels/loss.h). dx is summed over tensor ranks.
// The rank that has a label adds its loss to StepSum::loss, so each label is added once. unit_rows, cap: as in
// loss_head, which also calls this with an adapter on one rank.
void loss_head_parallel(Ctx& c, const Tensor& x, const LinearParams& head, bool unit_rows, double cap);

// Returns logits [N, V] of all rows and all tokens, on every rank. x: the local tokens.
Tensor logits_parallel(Ctx& c, const Tensor& x, const LinearParams& head, bool unit_rows, double cap);

}  // namespace ravine
