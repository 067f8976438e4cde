// The parameters of a linear layer, for the ops that compute with it.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/adapters.h"

namespace ravine {

// The cut of a linear layer's weight [out, in] over tensor ranks. columns: each rank has a part of the outputs; rows:
// each rank has a part of the inputs; none: every rank has the whole weight.
enum class Split : uint8_t { columns, rows, none };

// The kind of weights that are joined in memory, so that one product computes them all. single: one weight; qkv:
// queries, keys and values; gate_up: gate and up of an MLP; latents: the latents of queries and of keys.
// precision.unfused names the joins that are computed one by one (engine/recipe.h).
enum class Join : uint8_t { single, qkv, gate_up, latents };

// The parameters of a linear layer: its weights and biases, joined in memory (biases may be empty), and the adapters
// that add to their product.
struct LinearParams {
  std::vector<Param*> weights, biases;
  Join join = Join::single;
  const LoraAdapters* adapters = nullptr;  // null: none
};

}  // namespace ravine
