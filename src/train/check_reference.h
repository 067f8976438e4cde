// Checks dpo.reference (reference.h) before the run starts.
#pragma once
#include "config/config.h"
#include "model/model.h"

namespace ravine {

// Checks that dpo.reference, if set, is a folder whose model has the same config as the trained model (its weights may
// differ); a UserError if not. Reads headers only.
void check_reference(const Config& config, const Model& model);

}  // namespace ravine
