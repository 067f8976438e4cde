// The two ops whose table is cut over the vocabulary: each tensor rank has a run of rows. embedding() and loss_head() come here
// where there is more than one tensor rank.
#pragma once
#include "engine/ctx.h"
#include "engine/ops/linear_params.h"

namespace ravine {

// Rows of ids that another rank has are zero, then the sum over tensor ranks: exact, only one is not zero.
Tensor embedding_parallel(Ctx& c, const Param& table, int64_t padding_id, double scale);

// One chunk of tokens at a time: logits of my rows, their logsumexp, which all tensor ranks tell one another, and from these
// the losses of the labels that are here and the gradient (kernels/loss.h). dx is summed over tensor ranks. Losses go to side
// "loss" on the rank that has the label: of all tensor ranks every label is counted once. unit_rows, cap: as in
// loss_head, which also comes here with an adapter and one rank.
void loss_head_parallel(Ctx& c, const Tensor& x, const LinearParams& head, bool unit_rows, double cap);

// logits [N, V] of all ranks and all tokens, on every rank. x: the tokens that are here.
Tensor logits_parallel(Ctx& c, const Tensor& x, const LinearParams& head, bool unit_rows, double cap);

}  // namespace ravine
