// What a checkpoint says of where a run stands, and how a run goes on from one.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "data/history.h"
#include "io/checkpoint.h"
#include "optim/plateau.h"
#include "runs/opened_run.h"
#include "step/guard.h"
#include "step/loss_scale.h"
#include "step/step_window.h"

namespace ravine {

// Where a run stands between two steps.
struct Progress {
  // Of a run that begins. What is opened must outlive it.
  explicit Progress(const OpenedRun& run);
  int64_t done = 0, tokens = 0;  // steps; tokens seen
  DataHistory history;           // which samples the steps take
  StepWindow window;             // since the last line; in checkpoints, so that a resumed run shows the same means
  SpikeGuard spikes;
  std::optional<LossScale> loss_scale;  // none: losses are not scaled
  PlateauRate plateau;
  CheckpointLine line;            // which checkpoints led here
  std::string began_with;         // checksum of what model.path held when the run began; empty: not given
  bool frozen_elsewhere = false;  // frozen weights are those of model.path, and left out of checkpoints
};

// All that a checkpoint holds. Its tensors are views into the engine's live buffers.
TrainState checkpoint_state(const OpenedRun& run, const Progress& progress);

struct ResumePoint {
  std::string folder;  // "runs/book/checkpoints/step_000200"
  std::unique_ptr<CheckpointReader> reader;
};
// The checkpoint that the run goes on from, opened, its record compared with this run and the differences said; what of
// `progress` must be known before the engine has memory is set (done, tokens, began_with, frozen_elsewhere). Nothing: the run
// begins. The folder is held by the first rank; all ranks call it.
std::optional<ResumePoint> find_checkpoint(const OpenedRun& run, Progress& progress);

// Which samples the steps take, in `progress` and in the run's data: on from the checkpoint, or (null) as a run begins.
void place_data(const OpenedRun& run, const ResumePoint* from, Progress& progress);

// Fills the engine, which is allocated, and the rest of `progress`: from the checkpoint, or (null) as a run begins. `process`:
// of the checkpoints that this process will write (CheckpointLine). All ranks call it.
void begin_run(const OpenedRun& run, const ResumePoint* from, const std::string& process, Progress& progress);

}  // namespace ravine
