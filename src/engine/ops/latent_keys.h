#pragma once
#include "engine/ctx.h"

namespace ravine {

struct LatentKeys {
  Tensor keys, values;  // [N, H*(D+R)], [N, H*E]
};

// Heads of keys and values (LatentKeysForward): kv [N, H*(D+E)], what the latents give per head; rope [N, R], the rotated part
// of the key that all heads share, which may be a slice of a product's output.
LatentKeys latent_keys(Ctx& c, const Tensor& kv, const Tensor& rope, int64_t heads, int64_t value_size);

}  // namespace ravine
