// The progress of a run in its checkpoints, and the resume from a checkpoint.
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

// The progress of a run between two steps: step and token counts, position in the data, and other state that is not in
// the engine's tensors.
struct Progress {
  // Makes the progress of a new run, with no step done. `run` must outlive this object.
  explicit Progress(const OpenedRun& run);
  int64_t done = 0, tokens = 0;  // steps done; tokens seen
  DataHistory history;           // the samples of each step
  StepWindow window;             // since the last log line; stored, so that a resumed run shows the same means
  SpikeGuard spikes;
  std::optional<LossScale> loss_scale;  // empty: losses are not scaled
  PlateauRate plateau;
  CheckpointLine line;            // the checkpoints that led to this state
  std::string began_with;         // checksum of model.path when the run began; empty: not set
  bool frozen_elsewhere = false;  // checkpoints leave out frozen weights: model.path has them
};

// Returns the state to write to a checkpoint: tensors, scalars and texts. Its tensors are views of the engine's live
// buffers.
TrainState checkpoint_state(const OpenedRun& run, const Progress& progress);

// The checkpoint to resume from: its folder and an open reader.
struct ResumePoint {
  std::string folder;  // "runs/book/checkpoints/step_000200"
  std::unique_ptr<CheckpointReader> reader;
};
// Opens the checkpoint that checkpoint.resume leads to, compares its record with this run, and logs the differences.
// Sets the fields of `progress` that are needed before the engine allocates memory (done, tokens, began_with,
// frozen_elsewhere). Empty if the run starts anew. The first rank has locked the folder; all ranks call it together.
std::optional<ResumePoint> find_checkpoint(const OpenedRun& run, Progress& progress);

// Sets which samples the coming steps read, in `progress` and in the run's data. `from`: the checkpoint to resume from;
// null: a new run.
void restore_data_position(const OpenedRun& run, const ResumePoint* from, Progress& progress);

// Loads weights and optimizer states into the allocated engine, and sets the rest of `progress`. `from`: the checkpoint
// to resume from; null: a new run begins. `process`: id that this process writes to its checkpoints (CheckpointLine).
// All ranks call it together.
void begin_run(const OpenedRun& run, const ResumePoint* from, const std::string& process, Progress& progress);

}  // namespace ravine
