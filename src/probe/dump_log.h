// A dump on disk: the records of the calls of a run, by rank.
//
//   DIR/dump.json    {"ravine":"dump","version":1,"run":{..}}: identifies the folder and the run.
//   DIR/rank_0.log   one line for each record of this rank, in the order of the run.
//   DIR/step_000003/rank_0/000017.NAME.safetensors  with what=tensors: the inputs, or the outputs, of one call.
//
// A line is a checksum of 16 digits (files/checksum.h), a blank, and one JSON object, to which the checksum belongs.
// Lines are only appended. So a killed run keeps all earlier lines, and has at most one line with a wrong checksum.
// There are four kinds of objects:
//
//   {"session":..}   a process starts to write: its settings.
//   {"step":1,"micro":1,"phase":"forward","path":..,"op":..,"n":0,"tensor":"out","io":"output","dtype":"f32",
//    "shape":[..],"at":[..],"global":[..],"parameters":[..],"values":[..],"settings":{..},"sums":["..",".."],
//    "statistics":{..},"file":..,"stored":..}   a tensor.
//   {"end":1,"loss":..,"grad_norm":..,"lr":..,"loss_scale":..,"verdict":"apply"}   a step has ended.
//   {"limit":N,"step":..}   nothing is written afterwards: the dump has N bytes.
//
// Two ops in the phase update are no kernel calls. `gradient` is the finished gradient of a parameter before clipping.
// `state` is a parameter ("weights") or its optimizer state after the step.
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

inline constexpr int64_t kFewValues = 8;  // float tensors with at most this many elements have their values in the log
inline constexpr const char *kGradientOp = "gradient", *kStateOp = "state";

// A tensor that is stored in a file of a dump.
struct StoredPart {
  std::string file, stored;  // file in the folder of the dump, and name of the tensor in it
};

// A record: one tensor of a call.
struct DumpRecord {
  // step: from 1; 0 for parameters before the first step. micro: number of the micro batch, from 1; 1 in an update.
  int64_t step = 0, micro = 0;
  Phase phase = Phase::forward;
  std::string path, op;
  int64_t n = 0;  // number of earlier calls of this op at this path in this micro batch and phase
  std::string tensor;
  bool output = false;
  DType dtype = DType::f32;
  Shape shape;
  // For a part of a parameter: index of its first element in each dim, and the shape of the whole; else empty.
  std::vector<int64_t> at, global;
  std::vector<std::string> parameters;  // names of the parameters whose values or gradients these elements are
  TensorFigures figures;
  std::vector<double> values;  // all values of a float tensor with at most 8 elements
  // For an output: numbers in the formula of its call, such as eps (kernels/kernels.h).
  std::vector<std::pair<std::string, double>> settings;
  std::string file, stored;  // file in the folder of the dump, and name of the tensor in it; empty: not stored

  // For a trace of another program, in place of `file`: the stored tensors that make this tensor when their columns, or
  // with join_rows their rows, are concatenated.
  std::vector<StoredPart> parts;
  bool join_rows = false;

  bool is_stored() const { return !file.empty() || !parts.empty(); }
  std::string call() const;  // identifies the call: step, micro batch, phase, path, op, n
  std::string key() const;   // identifies the tensor: call, tensor, input or output, `at`
};

// The figures of a step in a dump, recorded at its end.
struct DumpedStep {
  double loss = 0, grad_norm = 0, lr = 0, loss_scale = 1;  // NaN or infinite values are kept
  std::string verdict;
};

// The dump of one rank. If a step was repeated (after a kill and a resume), its later records are used.
struct RankDump {
  int rank = 0;
  Json session;                     // settings of the last process that wrote the dump
  std::vector<DumpRecord> records;  // in the order of the run
  std::map<int64_t, DumpedStep> steps;
  int64_t damaged = 0;           // number of lines of the log that cannot be read
  std::optional<int64_t> limit;  // size in bytes at which the capture ended because of its limit; empty: it did not
};

// The contents of a dump: the records of all ranks.
struct Dump {
  std::string folder;
  bool of_modules = false;         // true: the dump is of another program, and calls may lack inputs
  bool own_names = false;          // true: calls have the names of the other program, not Ravine's
  std::vector<std::string> aside;  // contents of the dump for which there are no records, as text
  std::vector<RankDump> ranks;     // in the order of the ranks
};

// Returns the bytes of a record's tensor, concatenated from DumpRecord::parts. fetch(part) returns the bytes of a part.
std::vector<std::byte> joined_parts(const DumpRecord& r,
                                    const std::function<std::span<const std::byte>(const StoredPart&)>& fetch);

bool is_dump(const std::string& folder);
// Reads a dump of Ravine. A folder that is no complete dump is a UserError; damaged lines of logs are counted and
// dropped.
Dump read_dump(const std::string& folder);

// Throws a UserError if the folder exists and is neither empty nor a dump. Writes nothing.
void refuse_other_than_dump(const std::string& folder);

// The writer of one rank's log of a dump (rank_R.log); it appends lines. Creates missing files. The caller has called
// refuse_other_than_dump(folder) before.
class DumpLog {
 public:
  // run: an object that identifies the run. An existing dump of another run is a UserError.
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
