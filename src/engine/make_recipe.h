// Makes the precision rules from the options.
#pragma once
#include "config/config.h"
#include "engine/recipe.h"
#include "kernels/kernels.h"

namespace ravine {

// Makes the precision rules of a run from the options precision.recipes and precision.unfused. An unknown op name is a
// UserError.
Recipe make_recipe(const PrecisionOptions& options, const Kernels& kernels);

}  // namespace ravine
