// The checkpoints that a run writes: starting and waiting, their health, and log messages on them.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/log.h"
#include "comm/ranks.h"
#include "config/config.h"
#include "io/checkpoint.h"
#include "runs/checkpoint_files.h"
#include "runs/disk_needs.h"
#include "runs/run_folder.h"

namespace ravine {

// Returns the folder of a run's checkpoints: train.output/checkpoints, or a hidden folder if they are converted for
// another program.
std::string checkpoints_of(const Config& config);

// Converts the newest complete checkpoint in the hidden folder to the format of the other program, if an earlier start
// could not do it. Done only if it is newer than all converted checkpoints. The run then resumes from it. Only for
// checkpoints of another program (checkpoint.layout), with checkpoint.resume=auto. A failure is an Error on all ranks.
// The folder is locked; all ranks call it together, before they look for the checkpoint to resume from.
void publish_left(const OpenedRun& run);

// Writes the checkpoints of a run. Each rank has one object and writes its part. All ranks call save, wait, is_saved,
// what_is_lost and ended_early together, in the same order. Only the first rank logs, records saves, and knows if a
// checkpoint is complete.
class Saves {
 public:
  // Prepares the writing of checkpoints. `run`: a number that all ranks share and no other run has (io/checkpoint.h).
  // `from`: the step of the checkpoint that the run resumed from, 0 for a new run. `bytes`: for messages. The first
  // rank has locked the folder. All references and the buffers of saved states must outlive this.
  Saves(const Config& config, Log& log, const Ranks& ranks, RunFolder& folder, const SavedBytes& bytes, uint64_t run,
        int64_t from);

  // Sets the checkpoint format of another program: each saved checkpoint is then converted to it by `publish`. Called
  // before the first save.
  void publish_as(const CheckpointFiles& files, Publisher publish) { files_ = &files, publish_ = std::move(publish); }

  // Starts to write the checkpoint of `step` and returns; waits for the previous checkpoint. With health.embedding_norm
  // the checkpoint gets a verdict, healthy or not, from the `embedding_squares` (local_norms.h) of the ranks of the
  // first stage. An Error if the folder is gone, or if a mapped file was truncated. `best`: as in
  // CheckpointWriter::save.
  void save(int64_t step, TrainState state, double embedding_squares, int64_t best = 0);
  // Blocks until the checkpoint being written no longer reads the buffers of this unit, so that they may change.
  void wait_unit(size_t unit) { writer_.wait_unit(unit); }
  // Blocks until the checkpoint being written is complete, or has failed.
  void wait();
  // True if the checkpoint of `done`, the last step, is complete. Waits until it is complete or has failed, and logs
  // the result.
  bool is_saved(int64_t done);
  // Logs which checkpoints have been completed or have failed since the last call. `done`: the step that was just done.
  // Does not wait.
  void report(int64_t done);
  // Returns the step of the newest complete checkpoint, as known to this rank; empty: none.
  std::optional<int64_t> newest() const { return newest_; }
  // True if the newest checkpoint could not yet be converted to the format of the other program. Only the first rank
  // knows.
  bool unpublished() const { return unpublished_.has_value(); }

  // Returns a text on the command that resumes the run from its newest checkpoint: "the same command", or with the
  // option checkpoint.resume that it needs.
  std::string command_that_goes_on() const;
  // Returns a text for a message after a failed save: the checkpoint that a resume would read, found on the disk.
  std::string what_is_kept() const;
  // Warns if the checkpoint of the last step, `done`, failed. If no checkpoint was saved at all, or if the last
  // checkpoint in another program's format is missing, a resume is impossible: returns the message of the error with
  // which the run ends after the export, on all ranks. Else returns "". Called before the export.
  std::string what_is_lost(int64_t done);
  // Returns the message for a run that ends early, after step `done`. If the checkpoint of this step is not saved,
  // throws an Error that names the kept checkpoint. end_stopped: throws Stopped with this message.
  std::string ended_early(int64_t done);
  [[noreturn]] void end_stopped(int64_t done);

 private:
  void warn_of_health(int64_t step);

  const Config& config_;
  Log& log_;
  const Ranks& ranks_;
  RunFolder& folder_;
  SavedBytes bytes_;
  CheckpointWriter writer_;
  void publish(int64_t step);
  Publisher publish_;                       // null: checkpoints are not converted
  const CheckpointFiles* files_ = nullptr;  // the format that publish_ writes
  std::optional<int64_t> unpublished_;      // step of a complete state that is not published yet
  std::map<int64_t, bool> unhealthy_;       // verdict of health.embedding_norm for checkpoints that are being written
  std::optional<int64_t> newest_;
  std::string not_saved_;  // reason why the save after newest_ failed
};

}  // namespace ravine
