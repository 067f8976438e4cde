// Upcycling (Komatsuzaki et al. 2022): turns a dense model into one with experts, each a copy of its MLP. The weights
// of the chosen experts sum to 1, so before the first update both models compute the same, up to rounding.
#pragma once
#include <string>

#include "io/convert/weights.h"

namespace ravine {

// The settings of upcycle: numbers of experts of a layer and of experts per token.
struct Upcycling {
  int64_t experts = 0, top_k = 0;
  uint64_t seed = 0;  // seed of the routers' initial weights
};
// Parses the text of --upcycle: "experts=8,top_k=2" or "experts=8,top_k=2,seed=1"; anything else is a UserError.
Upcycling read_upcycling(const std::string& text);

// Turns a dense model into a model with experts. `weights` have declared names, as after from_family_files. The new
// family is one with experts whose layers otherwise equal the layers of g: mixtral, qwen2_moe or qwen3_moe. The config
// becomes the new family's. Routers are drawn as for a new model. The last matrix of a shared expert, which qwen2_moe
// always has, is zero. A model that none of these families can represent is a UserError.
void upcycle(Weights& weights, const Geometry& g, const Upcycling& u);

}  // namespace ravine
