#pragma once
#include "engine/ctx.h"

namespace ravine {

struct LatentKeys {
  Tensor keys, values;  // [N, H*(D+R)], [N, H*E]
};

// Returns the keys and values of all heads of latent attention (kernel LatentKeysForward). kv [N, H*(D+E)]: the output
// of the latents for each head. rope [N, R]: the rotated part of the key, shared by all heads; it may be a slice of a
// product's output.
LatentKeys latent_keys(Ctx& c, const Tensor& kv, const Tensor& rope, int64_t heads, int64_t value_size);

}  // namespace ravine
