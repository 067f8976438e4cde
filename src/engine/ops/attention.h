#pragma once
#include "engine/ctx.h"

namespace ravine {

// Runs attention: returns dropout(softmax(capped(scale q k^T))) v over the batch's segments. q [N,H*D]; k [N,G*D]; v
// [N,G*E]; result [N,H*E] in the compute type. at.slopes must outlive the backward pass. at.segments and at.dropout are
// set from the batch and the run. Dropout is applied only in training; its mask depends on seed, path, step, sequence,
// place, key, and head of the model. An Error in the backward pass if another op reads q, k or v. Unfused
// (precision.unfused: [attention]): two products and a softmax for each segment and head.
Tensor attention(Ctx& c, const Tensor& q, const Tensor& k, const Tensor& v, AttentionShape at);

// Attention over the keys and values of a cache: as attention() above, for the segments in `at`. Nothing is recorded,
// so there is no backward pass.
Tensor attention_cached(Ctx& c, const Tensor& q, const TensorView& k, const TensorView& v, const AttentionShape& at);

}  // namespace ravine
