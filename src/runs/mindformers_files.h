// checkpoint.layout=mindformers: train.output/checkpoint/rank_R/PREFIX_rank_R-EPOCH_STEP in the place of train.output/checkpoints.
#pragma once
#include <string>

#include "runs/opened_run.h"
#include "runs/saves.h"

namespace ravine {

// The file that a run with this layout goes on from: checkpoint.resume names it, its folder, or with `auto` the run's own folder.
// Of a folder the newest; with health.embedding_norm the newest that health_ckpts.json of this run calls healthy. "": none.
std::string mindformers_resume(const Config& config);

// What Saves does with a checkpoint that is complete.
SavedCheckpoint mindformers_publisher(const OpenedRun& run);

}  // namespace ravine
