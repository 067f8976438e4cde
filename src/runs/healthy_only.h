// Which checkpoints a resume may take.
#pragma once
#include "config/config.h"
#include "io/checkpoint.h"

namespace ravine {

// What a resume may take where health.embedding_norm is set; null: any. A UserError if there are checkpoints and none may be.
TakesCheckpoint healthy_only(const Config& config);

}  // namespace ravine
