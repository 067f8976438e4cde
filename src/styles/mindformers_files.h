// checkpoint.layout=mindformers: train.output/checkpoint/rank_R/PREFIX_rank_R-EPOCH_STEP in the place of train.output/checkpoints.
//
// A run goes on from the file that checkpoint.resume names, or from the newest of its folder; with `auto` that is the run's own.
// With health.embedding_norm it is the newest that health_ckpts.json beside that folder calls healthy; without one there, that of
// this run.
#pragma once
#include <memory>

#include "runs/checkpoint_files.h"
#include "runs/opened_run.h"

namespace ravine {

std::shared_ptr<const CheckpointFiles> mindformers_files();

}  // namespace ravine
