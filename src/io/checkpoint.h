// The full state of a training run on disk, written by a background thread from the live buffers.
//
//   checkpoints/latest                              text: name of the newest complete one, "step_000200"
//   checkpoints/step_000200/manifest.json           what is there: see io/manifest.h
//   checkpoints/step_000200/state-00000.safetensors one per rank, tensors in buffer order, for O_DIRECT
//
// A checkpoint is built in a temporary folder (files/temporary.h), synced, renamed; so every folder step_N is complete.
// Whatever is wrong with one is a UserError naming file and tensor.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "kernels/view.h"

namespace ravine {

class Elements;  // io/convert/elements.h

// This rank's part of one tensor of the state: the box of view.shape at `begin` in a tensor of shape `global` (a scalar has
// rank 0). A name may occur several times with boxes that do not overlap. All ranks together must cover every tensor exactly
// once.
struct StateTensor {
  std::string name;  // "weights/model.norm.weight"
  TensorView view;   // contiguous, on cpu
  Shape global;
  std::vector<int64_t> begin;  // per dim; empty means all zeros
  size_t unit = 0;             // what wait_unit waits for
  bool own = false;            // of this rank alone, under a name that no other writes
};

// Which checkpoints of a folder led to a state: those that its own process has saved, and of processes before it those up to
// the step that was gone on from. Others there are of a branch that was left. Kept in the scalars as "line"; programs that
// recorded none are the process "".
struct CheckpointLine {
  std::string process;
  std::vector<std::pair<std::string, int64_t>> before;  // process, its last step of this line; the oldest first
  // Whether a checkpoint of `step` that `process` has written is of this line.
  bool holds(const std::string& process, int64_t step) const;
  // The line of a process that goes on from a checkpoint of `step` of this line.
  CheckpointLine gone_on(const std::string& process, int64_t step) const;
  Json json() const;
  static CheckpointLine from_scalars(const Json& scalars);  // what cannot be read is no line
};

struct TrainState {
  std::vector<StateTensor> tensors;  // in the order the optimizer updates their units; neighbours in memory side by side
  Json scalars = Json::object();     // everything else: schedule, data position, sum_leaves, ...
  std::string program = "ravine";    // version of the program, and the instruction set it computes with: recorded
  std::string instructions;
};

// One background thread; nothing is copied: the buffers stay as they are until wait_unit or wait has returned. Not for use by
// two threads at once. With several ranks each has a writer, all save to the same shared folder, in the same order, and rank 0
// makes it complete. `run` is a number that they share and that no other run has: by it and the count of saves they know which
// parts belong together, so what a late rank of a save that failed still writes is never taken for a part of the next.
class CheckpointWriter {
 public:
  explicit CheckpointWriter(int rank = 0, int ranks = 1, uint64_t run = 0);
  ~CheckpointWriter();  // waits
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Starts to write checkpoints_dir/step_<step> (replacing one of that name) and returns; first waits for the save before. The
  // `keep` newest up to this step that are sound and of this state's line stay (0: all), with whatever lies among them; what is
  // older goes once this one is complete, unless it holds a file that no checkpoint has: that is a warning; replacing such a
  // one is refused. Those of other processes are read whole once, before anything goes because of them. The newest healthy one
  // stays in any case (io/checkpoint_health.h, where the verdict in `state` is written to the file too). The checkpoint of step
  // `best` (0: none) stays as one of the `keep`, or beside the newest where `keep` is 1. Wrong slices are an Error at once.
  void save(const std::string& checkpoints_dir, int64_t step, const TrainState& state, int64_t keep, int64_t best = 0);

  // Blocks until every tensor of the unit is written, or the save has failed: then its buffers may change.
  void wait_unit(size_t unit);
  // Blocks until the checkpoint is complete under its name and `latest` says so (rank 0; other ranks: their part is on disk).
  void wait();
  // Blocks until this rank's part of the last save is on disk, or has failed: then true. Of several ranks the first waits for
  // the parts of all; one that could not even leave it a mark there is told of by the ranks themselves, and give_up_parts ends
  // that wait: the save has failed.
  bool wait_part();
  void give_up_parts();
  // What went wrong with the last save (disk full, ...) or beside it, once. Unless take_saved has it, what it wrote is removed;
  // earlier checkpoints are untouched.
  std::optional<std::string> take_warning();
  // The last save that became complete since the call before: its step, the bytes of this rank, seconds from save() to
  // complete.
  struct Saved {
    int64_t step = 0, bytes = 0;
    double seconds = 0;
  };
  std::optional<Saved> take_saved();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A state of another program, under the names of ours.
struct ForeignState {
  int64_t step = 0;
  Json scalars = Json::object();
  std::map<std::string, std::shared_ptr<const Elements>> tensors;
  std::string where;  // for messages
};

class CheckpointReader {
 public:
  // Reads as if it were a checkpoint; floating tensors become of the type that is asked for, each element rounded once.
  explicit CheckpointReader(ForeignState state);
  // Opens checkpoints_dir/step_N and checks the manifest against the files' sizes and headers; with `verify` also every byte
  // against the checksums (reads all files, in parallel_for).
  CheckpointReader(const std::string& dir, bool verify);
  ~CheckpointReader();
  CheckpointReader(const CheckpointReader&) = delete;
  CheckpointReader& operator=(const CheckpointReader&) = delete;

  int64_t step() const;
  const Json& scalars() const;
  const std::string& program() const;
  const std::string& instructions() const;

  // Fills the contiguous `into` with the box at `begin` (empty: zeros) of tensor `name`, from whatever slices hold it. A name
  // that is not there, another dtype or another global shape is a UserError: nothing is converted. Runs in parallel_for.
  void read(const std::string& name, TensorView into, const Shape& global, const std::vector<int64_t>& begin) const;

  bool has(const std::string& name) const;
  std::vector<std::string> names() const;  // in file order
  DType dtype(const std::string& name) const;
  const Shape& shape(const std::string& name) const;  // global

 private:
  friend std::string fault_in_checkpoint(const std::string& folder, bool whole);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The folder to resume from: the one that `latest` names, else the newest. Verified whole; one that is damaged is reported
// through `warn` and the next older one is tried (after them, newer ones that `latest` does not know). Nothing if there is none
// at all; a UserError if there are some and all are damaged. A missing folder is no checkpoint.
// `takes` (of names; null: all) leaves some out. Without `whole` bytes are not compared with their checksums.
using TakesCheckpoint = std::function<bool(const std::string& name)>;
std::optional<std::string> newest_checkpoint(const std::string& checkpoints_dir,
                                             const std::function<void(const std::string&)>& warn,
                                             const TakesCheckpoint& takes = {}, bool whole = true);

// What the file `latest` says: nothing if there is none, or if it names no checkpoint. A UserError where it is no plain file.
std::optional<int64_t> latest_step(const std::string& checkpoints_dir);
// The step that newest_checkpoint tries first; nothing is read of it.
std::optional<int64_t> first_step_to_try(const std::string& checkpoints_dir);
// The folders that it tries, in this order, unread.
std::vector<std::string> checkpoints_to_try(const std::string& checkpoints_dir, const TakesCheckpoint& takes = {});

// Removes what killed runs left half written, and gives a checkpoint its name again that was being replaced. To be called by
// one rank, before the newest one is looked for.
void clean_leftovers(const std::string& checkpoints_dir);

// Whether the folder's manifest.json says that it is one of a checkpoint; its beginning alone is read.
bool manifest_says_checkpoint(const std::string& folder);
// Whether the folder is a checkpoint, sound or not: its manifest says so, or, since that may be damaged, is there in a folder
// with the name of one.
bool is_checkpoint(const std::string& folder);
// Whether there is one directly in it.
bool holds_checkpoints(const std::string& folder);

// What is wrong with the checkpoint, "" if nothing is: manifest, sizes and headers, with `whole` also every byte. Runs on the
// calling thread alone.
std::string fault_in_checkpoint(const std::string& folder, bool whole);

// What is write-protected of it, its folder or a file in it (no write permission, or immutable), "" if nothing is: its user
// wants to keep it, whatever the rights of this process.
std::string protection_of_checkpoint(const std::string& folder);

// The first entry that no checkpoint has, "" if there is none.
std::string foreign_in_checkpoint(const std::string& folder);

std::string checkpoint_name(int64_t step);                          // "step_000200"
std::optional<int64_t> checkpoint_step(const std::string& folder);  // of a folder name; nothing if it is not one

}  // namespace ravine
