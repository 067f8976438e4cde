// The checkpoints of checkpoint.layout=mindformers: train.output/checkpoint/rank_R/PREFIX_rank_R-EPOCH_STEP. They
// replace train.output/checkpoints.
//
// A run resumes from the file in checkpoint.resume, or from the newest file of the folder in it. With `auto` the folder
// is the run's own. With health.embedding_norm only files are considered that health_ckpts.json of this run calls
// healthy, as in MindFormers.
#pragma once
#include <memory>

#include "runs/checkpoint_files.h"
#include "runs/opened_run.h"

namespace ravine {

// Returns the reader and writer of the checkpoints of checkpoint.layout=mindformers.
std::shared_ptr<const CheckpointFiles> mindformers_files();

}  // namespace ravine
