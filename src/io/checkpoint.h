// Writes and reads checkpoints: the full state of a training run on disk. A background thread writes from the live
// buffers.
//
//   checkpoints/latest                              text: name of the newest complete one, "step_000200";
//   checkpoints/step_000200/manifest.json           the contents (io/manifest.h);
//   checkpoints/step_000200/state-00000.safetensors one per rank, tensors in buffer order, for O_DIRECT
//
// A checkpoint is built in a temporary folder (files/temporary.h), synced and renamed, so every folder step_N is
// complete. A fault in a checkpoint is a UserError that names file and tensor.
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

// This rank's slice of one tensor of the state: the box of shape view.shape at `begin` in a tensor of shape `global`. A
// scalar has rank 0. A name may occur several times if its boxes do not overlap. All ranks together must cover every
// tensor exactly once.
struct StateTensor {
  std::string name;  // "weights/model.norm.weight"
  TensorView view;   // contiguous, on cpu
  Shape global;
  std::vector<int64_t> begin;  // per dim; empty: all zeros
  size_t unit = 0;             // number of the unit (parameters of a block) for wait_unit
  bool own = false;            // true: only this rank writes a tensor of this name
};

// The history of a state: the processes whose checkpoints led to it. All checkpoints of its own process belong to the
// line. Of an earlier process only those up to the step that was resumed from belong to it; later ones belong to an
// abandoned branch. The line is stored in the scalars as "line". Programs that stored no line are the process "".
struct CheckpointLine {
  std::string process;
  std::vector<std::pair<std::string, int64_t>> before;  // (process, its last step of this line), the oldest first
  // True if this state descends from the checkpoint of `step` that `process` wrote, or `process` wrote this state too.
  // False for a checkpoint of an abandoned branch.
  bool holds(const std::string& process, int64_t step) const;
  // Returns the history of a new process that resumes from the checkpoint of `step` of this history.
  CheckpointLine gone_on(const std::string& process, int64_t step) const;
  Json json() const;
  static CheckpointLine from_scalars(const Json& scalars);  // an unreadable entry gives an empty line
};

// The state of a run to save in a checkpoint.
struct TrainState {
  // The tensors of the state, in the order in which the optimizer updates their units. Tensors that are adjacent in
  // memory are adjacent here.
  std::vector<StateTensor> tensors;
  Json scalars = Json::object();   // all other state: schedule, data position, sum_leaves, ...
  std::string program = "ravine";  // recorded: program version, and in `instructions` the CPU instruction set it uses
  std::string instructions;
};

// Saves checkpoints in one background thread. Nothing is copied: the buffers must not change until wait_unit or wait
// has returned. Not safe for use by two threads at once. With several ranks each rank has a writer. All ranks save to
// the same shared folder in the same order, and rank 0 completes the checkpoint. `run` is a number shared by the ranks
// and different for each run. Together with the count of saves it marks the parts of one save. So a part that a late
// rank writes after a failed save is never used in the next save.
class CheckpointWriter {
 public:
  explicit CheckpointWriter(int rank = 0, int ranks = 1, uint64_t run = 0);
  ~CheckpointWriter();  // waits for the current save
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Starts to write checkpoints_dir/step_<step> and returns; first waits for the previous save. A checkpoint of that
  // name is replaced. Inconsistent slices are an Error at once.
  //
  // Retention: the `keep` newest checkpoints up to this step stay if they are undamaged and belong to this state's line
  // (0: all stay). Checkpoints between them stay too. Older ones are removed once this one is complete. A checkpoint
  // with a foreign file stays with a warning; replacing one is refused. Checkpoints of other processes are read
  // completely once before they count. The newest healthy checkpoint always stays (io/checkpoint_health.h); the verdict
  // in `state` is also written to that file. The checkpoint of step `best` (0: none) stays as one of the `keep`; if
  // `keep` is 1, it stays in addition to the newest.
  void save(const std::string& checkpoints_dir, int64_t step, const TrainState& state, int64_t keep, int64_t best = 0);

  // Blocks until every tensor of the unit is written or the save has failed. Its buffers may then change.
  void wait_unit(size_t unit);
  // Blocks until the save is complete: on rank 0 until the checkpoint has its final name and `latest` names it, on
  // other ranks until the rank's part is on disk.
  void wait();
  // Blocks until this rank's part of the last save is on disk or the save has failed; returns true if it has failed.
  // Rank 0's thread waits for the parts of all ranks. A rank that cannot even write its failure mark reports the
  // failure to the other ranks; give_up_parts then ends the wait, and the save fails.
  bool wait_part();
  void give_up_parts();
  // Returns the error or warning of the last save (disk full, ...), once. If take_saved does not report the save, its
  // files are removed. Earlier checkpoints are untouched.
  std::optional<std::string> take_warning();
  // A save that was completed; the result of take_saved. `bytes` counts this rank's bytes, `seconds` the time from the
  // start of the write to completion.
  struct Saved {
    int64_t step = 0, bytes = 0;
    double seconds = 0;
  };
  // Returns the last save that was completed since the previous call; nothing if there is none.
  std::optional<Saved> take_saved();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A training state written by another program, with Ravine's tensor names.
struct ForeignState {
  int64_t step = 0;
  Json scalars = Json::object();
  std::map<std::string, std::shared_ptr<const Elements>> tensors;
  std::string where;  // path for messages
};

class CheckpointReader {
 public:
  // Reads a state of another program like a checkpoint. Floating tensors are converted to the requested type; each
  // element is rounded once.
  explicit CheckpointReader(ForeignState state);
  // Opens the checkpoint folder `dir` (checkpoints_dir/step_N) and checks the manifest against the sizes and headers of
  // the files. With `verify` every byte is checked against the checksums too (reads all files, in parallel_for).
  CheckpointReader(const std::string& dir, bool verify);
  ~CheckpointReader();
  CheckpointReader(const CheckpointReader&) = delete;
  CheckpointReader& operator=(const CheckpointReader&) = delete;

  int64_t step() const;
  const Json& scalars() const;
  const std::string& program() const;
  const std::string& instructions() const;

  // Reads a box of tensor `name` into the contiguous `into`: the box of the shape of `into` that begins at `begin`
  // (empty: zeros) in the tensor of shape `global`. All slices that overlap the box are read. A missing name, another
  // dtype or another global shape is a UserError: nothing is converted. Runs in parallel_for.
  void read(const std::string& name, TensorView into, const Shape& global, const std::vector<int64_t>& begin) const;

  bool has(const std::string& name) const;
  std::vector<std::string> names() const;  // names of all tensors, in file order
  DType dtype(const std::string& name) const;
  const Shape& shape(const std::string& name) const;  // shape of the whole tensor over all ranks

 private:
  friend std::string fault_in_checkpoint(const std::string& folder, bool whole);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Returns the checkpoint folder to resume from: the folder named by `latest`, else the newest. A missing folder has no
// checkpoints. Each candidate is verified. A damaged one is reported through `warn`, and the next older one is tried;
// checkpoints newer than `latest` are tried last. Returns nothing if there are no checkpoints; a UserError if all are
// damaged. `takes` (called with names; null: all) selects the candidates. If `whole` is false, bytes are not compared
// with their checksums.
using TakesCheckpoint = std::function<bool(const std::string& name)>;
std::optional<std::string> newest_checkpoint(const std::string& checkpoints_dir,
                                             const std::function<void(const std::string&)>& warn,
                                             const TakesCheckpoint& takes = {}, bool whole = true);

// Returns the step in the file `latest`; nothing if there is no file or it names no checkpoint. A UserError if it is
// not a plain file.
std::optional<int64_t> latest_step(const std::string& checkpoints_dir);
// Returns the step that newest_checkpoint tries first, without reading the checkpoint.
std::optional<int64_t> first_step_to_try(const std::string& checkpoints_dir);
// Returns the checkpoint folders that newest_checkpoint tries, in this order, without reading them.
std::vector<std::string> checkpoints_to_try(const std::string& checkpoints_dir, const TakesCheckpoint& takes = {});

// Removes the incomplete files of killed runs. A checkpoint whose replacement was interrupted gets its name back. Must
// be called by one rank, before the newest checkpoint is searched.
void clean_leftovers(const std::string& checkpoints_dir);

// True if the folder's manifest.json has the format of a checkpoint. Only the beginning of the file is read.
bool manifest_names_checkpoint(const std::string& folder);
// True if the folder is a checkpoint, damaged or not. Either its manifest has the format, or the folder has a
// checkpoint's name and contains a manifest.
bool is_checkpoint(const std::string& folder);
// True if the folder directly contains a checkpoint.
bool holds_checkpoints(const std::string& folder);

// Returns a text on the fault of the checkpoint `folder`; "" if it has none. Checks manifest, sizes and headers; with
// `whole` also every byte. Runs on the calling thread alone.
std::string fault_in_checkpoint(const std::string& folder, bool whole);

// Returns the first write-protected path of a checkpoint (no write permission, or immutable): the folder itself or a
// file in it; "" if none. Protection means that the user wants to keep the checkpoint, even if this process may remove
// it.
std::string protection_of_checkpoint(const std::string& folder);

// Returns the name of the first entry of the checkpoint `folder` that no checkpoint has: a file that was added to it;
// "" if there is none.
std::string foreign_in_checkpoint(const std::string& folder);

std::string checkpoint_name(int64_t step);  // "step_000200"
// Returns the step in the name of a checkpoint folder: 200 for "step_000200"; nothing for other names.
std::optional<int64_t> checkpoint_step(const std::string& folder);

}  // namespace ravine
