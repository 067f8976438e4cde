// Upcycling (Komatsuzaki et al. 2022): a dense model becomes one with experts, each of them a copy of its MLP. Weights of the
// chosen experts add up to 1, so before the first update the two models compute the same, to rounding.
#pragma once
#include <string>

#include "io/convert/weights.h"

namespace ravine {

struct Upcycling {
  int64_t experts = 0, top_k = 0;
  uint64_t seed = 0;  // of routers
};
// "experts=8,top_k=2" or "experts=8,top_k=2,seed=1"; anything else is a UserError.
Upcycling read_upcycling(const std::string& text);

// `weights` by declared names, as after from_family_files, become those of a family with experts whose layers are otherwise
// those of g: mixtral, qwen2_moe or qwen3_moe. The config is the new family's. Routers are drawn as a training would begin them;
// of a shared expert, which qwen2_moe always has, the last matrix is zero. A model that no such family carries is a UserError.
void upcycle(Weights& weights, const Geometry& g, const Upcycling& u);

}  // namespace ravine
