// What a linear layer is to the ops that compute with it.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/adapters.h"

namespace ravine {

// A weight [out, in] over tensor ranks: its outputs are cut, its inputs, nothing.
enum class Split : uint8_t { columns, rows, none };

// Which weights lie side by side, so that one product computes them all: one alone; queries, keys and values; gate and up of an
// MLP; the latents of queries and of keys. precision.unfused names those that it takes apart (engine/recipe.h).
enum class Join : uint8_t { single, qkv, gate_up, latents };

// Weights and biases that are joined in memory (no biases: none), and what is added to their product.
struct LinearParams {
  std::vector<Param*> weights, biases;
  Join join = Join::single;
  const LoraAdapters* adapters = nullptr;  // null: none
};

}  // namespace ravine
