// A dump on disk: what the ranks of a run have kept of their calls.
//
//   DIR/dump.json                            {"ravine":"dump","version":1,"run":{..}}: by it the folder is known, and the run
//   DIR/rank_0.log                           one line for each record of this rank, in the order of the run
//   DIR/step_000003/rank_0/000017.NAME.safetensors  with what=tensors: what one call read, or wrote
//
// A line is 16 digits of a checksum (files/checksum.h), a blank, and one JSON object, which the checksum is of. Lines are only
// ever added, so a run that is killed leaves all that came before, and at most one line that its checksum does not fit. The
// objects are of four kinds:
//
//   {"session":..}   a process begins to write here; says what it runs
//   {"step":1,"micro":1,"phase":"forward","path":..,"op":..,"n":0,"tensor":"out","io":"output","dtype":"f32","shape":[..],
//    "at":[..],"global":[..],"parameters":[..],"values":[..],"settings":{..},"sums":["..",".."],
//    "statistics":{..},"file":..,"stored":..}   a tensor
//   {"end":1,"loss":..,"grad_norm":..,"lr":..,"loss_scale":..,"verdict":"apply"}   a step has ended
//   {"limit":N,"step":..}   nothing is written from here on: the dump has N bytes
//
// Beside kernel calls there are two ops of another kind, in the phase update: `gradient`, the finished gradient of a parameter
// before it is clipped, and `state`, a parameter ("weights") or what the optimizer keeps of it behind the step.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "config/choices.h"
#include "files/appended_file.h"
#include "probe/tensor_figures.h"

namespace ravine {

inline constexpr int64_t kFewValues = 8;  // a tensor of no more has its values in the log
inline constexpr const char *kGradientOp = "gradient", *kStateOp = "state";

struct StoredPart {
  std::string file, stored;  // in the folder of the dump, and the tensor's name there
};

struct DumpRecord {
  int64_t step = 0, micro = 0;  // from 1, but parameters before the first step: 0. Of the update: micro 1
  Phase phase = Phase::forward;
  std::string path, op;
  int64_t n = 0;  // calls of this op at this path before this one, in this micro batch and phase
  std::string tensor;
  bool output = false;
  DType dtype = DType::f32;
  Shape shape;
  std::vector<int64_t> at, global;      // of a part of a parameter: where it begins, and the shape of the whole; else empty
  std::vector<std::string> parameters;  // that these elements are values or gradients of
  TensorFigures figures;
  std::vector<double> values;                            // of a float tensor of at most 8 elements, all of them
  std::vector<std::pair<std::string, double>> settings;  // of what a call writes: numbers of its formula (kernels/kernels.h)
  std::string file, stored;                              // in the folder of the dump, and the tensor's name there. Empty: none

  // Of another program's trace: tensors of one type whose columns lie side by side, or whose rows lie one after another, in place of file.
  std::vector<StoredPart> parts;
  bool join_rows = false;

  bool is_stored() const { return !file.empty() || !parts.empty(); }
  std::string call() const;  // what tells calls apart: step, micro batch, phase, path, op, n
  std::string key() const;   // and tensors: the call, tensor, side, place
};

struct DumpedStep {
  double loss = 0, grad_norm = 0, lr = 0, loss_scale = 1;  // not finite where it was not
  std::string verdict;
};

// What one rank has written. Where a step was made again (a run that was killed and went on) the later records count.
struct RankDump {
  int rank = 0;
  Json session;                     // of the last process
  std::vector<DumpRecord> records;  // in the order of the run
  std::map<int64_t, DumpedStep> steps;
  int64_t damaged = 0;           // lines that cannot be read
  std::optional<int64_t> limit;  // where it ended for its size
};

struct Dump {
  std::string folder;
  bool of_modules = false;         // another program's: calls read more than it has of them
  bool own_names = false;          // and they have its own names of modules and calls, not ours
  std::vector<std::string> aside;  // in words: what it has and no record stands for
  std::vector<RankDump> ranks;     // by rank
};

// The bytes of a record's parts put together; fetch gives those of one.
std::vector<std::byte> joined_parts(const DumpRecord& r,
                                    const std::function<std::span<const std::byte>(const StoredPart&)>& fetch);

bool is_dump(const std::string& folder);
// Whatever is wrong with the folder as a whole is a UserError; single lines that are damaged are counted and left out.
Dump read_dump(const std::string& folder);

// A UserError where the folder holds something that is no dump. Nothing is written.
void refuse_other_than_dump(const std::string& folder);

// One rank's log, open at its end. Creates what is not there; whoever makes one has asked refuse_other_than_dump before.
class DumpLog {
 public:
  // run: by which runs are told apart; a UserError where the dump that is there is of another.
  DumpLog(const std::string& folder, int rank, const Json& run = Json::object());
  void begin(const Json& session);
  void add(const DumpRecord& record);
  void end_step(int64_t step, const DumpedStep& figures);
  void limit(int64_t bytes, int64_t step);
  int64_t size() const { return file_.size(); }
  void cut(int64_t size) { file_.cut(size); }

 private:
  void line(const std::string& json);
  AppendedFile file_;
};

}  // namespace ravine
