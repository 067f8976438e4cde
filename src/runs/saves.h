// The checkpoints that a run writes: started, waited for, judged, and what is said of them and of what is not saved.
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

// Where checkpoints of a run are written: train.output/checkpoints, or, where they are to be those of another program, a folder
// that they leave again.
std::string checkpoints_of(const Config& config);

// For checkpoints of another program, with checkpoint.resume=auto: the newest complete state that a start before could not
// publish is published, where it is newer than the newest that is; the run then goes on from it. An Error on all ranks where
// that fails. The folder is held; all ranks call it, before they look for what to resume from.
void publish_left(const OpenedRun& run);

// Of several ranks each has one and writes its part; all call save, wait, is_saved, what_is_lost and ended_early together, in
// the same order. The first speaks, writes down what is saved, and alone knows whether the whole of a checkpoint is there.
class Saves {
 public:
  // `run`: a number that all ranks share and no other run has (io/checkpoint.h). `from`: the step of the checkpoint that the
  // run goes on from, 0 if it begins. `bytes`: for messages. The folder is held by the first rank; all must outlive this, and
  // so must the buffers of the states that it is given.
  Saves(const Config& config, Log& log, const Ranks& ranks, RunFolder& folder, const SavedBytes& bytes, uint64_t run,
        int64_t from);

  // Before the first save.
  void publish_as(const CheckpointFiles& files, Publisher publish) { files_ = &files, publish_ = std::move(publish); }

  // Starts to write a checkpoint and returns; waits for the one before. With health.embedding_norm it gets the verdict that
  // `embedding_squares` (local_norms.h) of the ranks of the first stage come to. An Error once the folder has gone, or a file
  // that is mapped was cut. `best`: as in CheckpointWriter::save.
  void save(int64_t step, TrainState state, double embedding_squares, int64_t best = 0);
  // Blocks until the buffers of this unit may change.
  void wait_unit(size_t unit) { writer_.wait_unit(unit); }
  // Blocks until the save under way is complete, or has failed.
  void wait();
  // Whether the checkpoint of `done`, the last step, is complete; waits, and says what there is to say.
  bool is_saved(int64_t done);
  // Says what came of saves since the call before, after step `done`. It waits for nothing.
  void report(int64_t done);
  // The newest step with a complete checkpoint, as this rank knows; nothing: none.
  std::optional<int64_t> newest() const { return newest_; }
  // Whether that is a state that could not be published yet. The first rank knows.
  bool unpublished() const { return unpublished_.has_value(); }

  // What goes on where this run ends: with another checkpoint.resume the same command would begin where this one began, or be
  // refused.
  std::string command_that_goes_on() const;
  // What a run that could not write goes on from; read from the disk, not remembered.
  std::string what_is_kept() const;
  // At the end of a run, before its model is exported: warns where the checkpoint of the last step, `done`, failed. Where all
  // did, or the last of another program's is not there, what to end with once the model is there, on all ranks: nobody can go on
  // from a model. Else "".
  std::string what_is_lost(int64_t done);
  // What to say of a run that ends after step `done`, which is not its last; an Error that says what is kept where that is not
  // saved. end_stopped: ends a run that was asked to stop so, by Stopped.
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
  Publisher publish_;                       // null: they stay as they are
  const CheckpointFiles* files_ = nullptr;  // what it makes of them
  std::optional<int64_t> unpublished_;      // complete, and not published yet
  std::map<int64_t, bool> unhealthy_;       // of checkpoints under way: the verdict of health.embedding_norm
  std::optional<int64_t> newest_;
  std::string not_saved_;  // why the save after it failed
};

}  // namespace ravine
