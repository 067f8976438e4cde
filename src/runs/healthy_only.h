// The checkpoints that a resume may read.
#pragma once
#include "config/config.h"
#include "io/checkpoint.h"

namespace ravine {

// Returns a function that is true for the names of checkpoints that health.embedding_norm found healthy; a resume reads
// only these. Null (no filter) if health.embedding_norm is 0, or if checkpoint.resume names a checkpoint or none. A
// UserError if there are checkpoints, and none of them is healthy.
TakesCheckpoint healthy_only(const Config& config);

}  // namespace ravine
