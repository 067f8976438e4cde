// A LoRA adapter of PEFT added into the weights of its base: W + scale * B A, as merge_and_unload does it, in f64 and rounded
// once to the type of W.
#pragma once
#include <string>

#include "io/convert/weights.h"

namespace ravine {

// `weights` by declared names, as after from_family_files. Whole modules of the adapter replace theirs, in the type that the
// base has; of a tied embedding with an adapter the head becomes a tensor of its own; the config takes the vocabulary of tables
// among them. What adapter_settings, with_adapters or a shape refuse is a UserError.
void merge_adapter(Weights& weights, const Geometry& g, const std::string& adapter);

}  // namespace ravine
