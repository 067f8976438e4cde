// Whether dpo.reference can be what a run compares with (reference.h), before anything of it is read.
#pragma once
#include "config/config.h"
#include "model/model.h"

namespace ravine {

// A UserError unless dpo.reference (where given) is a folder of the same model as the run's. Reads headers only.
void check_reference(const Config& config, const Model& model);

}  // namespace ravine
