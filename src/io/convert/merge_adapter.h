// Merges a LoRA adapter into the weights of its base: W + scale * B A, as in PEFT's merge_and_unload. Computed in f64
// and rounded once, to the type of W or to a requested wider type.
#pragma once
#include <optional>
#include <string>

#include "config/choices.h"
#include "io/convert/weights.h"

namespace ravine {

// Merges the adapter in folder `adapter` into `weights`, which have declared names, as after from_family_files. Whole
// modules of the adapter replace the base's, in the base's type. If a tied embedding has an adapter, the head becomes a
// separate tensor. The config's vocabulary is taken from whole tables. If `base` is set, all frozen matrices of linear
// layers get the values that lora.base gives; for nf4 the values of their blocks (kernels/nf4.h), in f32 until the
// final rounding. `type`: the type of the result; none: the type of W. Errors of adapter_settings, with_adapters, wrong
// shapes, and values that are not finite are UserErrors.
void merge_adapter(Weights& weights, const Geometry& g, const std::string& adapter, std::optional<BaseStorage> base,
                   std::optional<DType> type);

}  // namespace ravine
