#pragma once
#include "engine/ctx.h"

namespace ravine {

// dropout(softmax(capped(scale q k^T))) v over the batch's segments. q [N,H*D]; k [N,G*D]; v [N,G*E]; out [N,H*E] in the
// compute type. at.segments and at.dropout are filled in from the batch and the run (dropout in training only, by seed, path,
// step, sequence, place, key and head of the model); at.slopes must outlive the backward pass. An Error in backward if q, k or
// v is used elsewhere too. Unfused (precision.unfused:
// [attention]): per segment and head two products and a softmax.
Tensor attention(Ctx& c, const Tensor& q, const Tensor& k, const Tensor& v, AttentionShape at);

// The same over keys and values of a cache, of the segments that `at` says; nothing is recorded.
Tensor attention_cached(Ctx& c, const Tensor& q, const TensorView& k, const TensorView& v, const AttentionShape& at);

}  // namespace ravine
