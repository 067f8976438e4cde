// The checkpoints that a resume may read.
#pragma once
#include "config/config.h"
#include "io/checkpoint.h"

namespace ravine {

// Returns a filter for the checkpoints that a resume may read if health.embedding_norm is set; null: no filter. A
// UserError if there are checkpoints, and none of them is healthy.
TakesCheckpoint healthy_only(const Config& config);

}  // namespace ravine
