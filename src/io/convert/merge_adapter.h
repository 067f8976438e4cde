// A LoRA adapter added into the weights of its base: W + scale * B A, as PEFT's merge_and_unload does it, in f64 and rounded once
// to the type of W, or to a wider one that is asked for.
#pragma once
#include <optional>
#include <string>

#include "config/choices.h"
#include "io/convert/weights.h"

namespace ravine {

// `weights` by declared names, as after from_family_files. Whole modules of the adapter replace theirs, in the type that the
// base has; of a tied embedding with an adapter the head becomes a tensor of its own; the config takes the vocabulary of tables
// among them. With `base` the frozen matrices of linear layers, with an adapter and without, are what lora.base makes of them: for
// nf4 the values that their blocks stand for (kernels/nf4.h), in f32 up to the one rounding. What adapter_settings, with_adapters
// or a shape refuse is a UserError, so is a value that is not finite.
void merge_adapter(Weights& weights, const Geometry& g, const std::string& adapter, std::optional<BaseStorage> base,
                   std::optional<DType> type);

}  // namespace ravine
