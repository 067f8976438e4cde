#pragma once
#include "engine/ctx.h"

namespace ravine {

// Returns the embeddings of the batch's ids: x[n] = scale * table[ids[n]], [N,C] in the residual type. Rows of
// `padding_id` (if >= 0) get no gradient.
Tensor embedding(Ctx& c, const Param& table, int64_t padding_id = -1, double scale = 1);

// Returns the learned position embeddings of the batch: x[n] = table[positions[n]], [N,C]. A position beyond the table
// is an Error.
Tensor position_embedding(Ctx& c, const Param& table);

}  // namespace ravine
