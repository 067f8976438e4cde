// Checks dpo.reference (reference.h) before the run starts.
#pragma once
#include "config/config.h"
#include "model/model.h"

namespace ravine {

// Checks that dpo.reference, if set, is a folder with the same model as the run's; a UserError if it is not. Reads
// headers only.
void check_reference(const Config& config, const Model& model);

}  // namespace ravine
