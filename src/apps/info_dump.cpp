#include "apps/info_dump.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/shell_word.h"
#include "probe/dump_kinds.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

// Returns steps as text: "1-3, 7".
std::string ranges_text(const std::set<int64_t>& steps) {
  std::string out;
  for (auto it = steps.begin(); it != steps.end();) {
    const int64_t first = *it;
    int64_t last = first;
    while (++it != steps.end() && *it == last + 1) last = *it;
    out += fmt::format("{}{}", out.empty() ? "" : ", ", first);
    if (last > first) out += fmt::format("-{}", last);
  }
  return out;
}

int64_t bytes_in(const std::string& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(folder, error))
    if (entry.is_regular_file(error)) bytes += static_cast<int64_t>(entry.file_size(error));
  return bytes;
}

std::string location_of(const DumpRecord& r) {
  return fmt::format("step {} micro batch {} {} {} {}{} {}", r.step, r.micro, name(r.phase), r.path, r.op,
                     r.n > 0 ? fmt::format("[{}]", r.n) : "", r.tensor);
}

std::string figures_text(const TensorFigures& f) {
  if (!f.has_statistics) return fmt::format("sums {:016x} {:016x}", f.order_free, f.positional);
  std::string out =
      fmt::format("min {:.9g} max {:.9g} mean {:.9g} std {:.9g} l1 {:.9g} l2 {:.9g}", f.min, f.max, f.mean, f.std, f.l1, f.l2);
  if (f.zero > 0) out += fmt::format(" zero {}", f.zero);
  if (f.nan > 0) out += fmt::format(" nan {}", f.nan);
  if (f.plus_inf > 0) out += fmt::format(" +inf {}", f.plus_inf);
  if (f.minus_inf > 0) out += fmt::format(" -inf {}", f.minus_inf);
  return out;
}

}  // namespace

Json describe_dump(const std::string& path, bool list) {
  const DumpKind program = dump_kind(path).value_or(DumpKind::ravine);
  const Dump dump = read_dump_of(path, program);
  const std::string kind = program == DumpKind::ravine ? "dump of what calls of a run read and wrote (probe.dump)"
                                                       : fmt::format("dump of {}", name(program));
  Json j{{"kind", kind}, {"path", path}, {"bytes", bytes_in(path)}};
  std::set<int64_t> steps;
  std::map<std::string, int64_t> phases, ops;
  std::set<std::string> calls;
  int64_t records = 0, tensors = 0, damaged = 0;
  std::string first_nan;
  Json ends = Json::object(), limits = Json::object(), rows = Json::array();
  for (const RankDump& rank : dump.ranks) {
    damaged += rank.damaged;
    if (rank.limit) limits[fmt::format("rank {}", rank.rank)] = *rank.limit;
    calls.clear();
    for (const DumpRecord& r : rank.records) {
      ++records;
      tensors += r.is_stored();
      steps.insert(r.step);
      if (calls.insert(r.call()).second) ++phases[std::string(name(r.phase))], ++ops[r.op];
      if (r.output && r.figures.nan > 0 && first_nan.empty()) first_nan = location_of(r);
      if (list)
        rows.push_back({{"name", location_of(r) + (r.output ? " (written)  " : " (read)  ") + figures_text(r.figures)},
                        {"dtype", name(r.dtype)},
                        {"shape", std::vector<int64_t>(r.shape.begin(), r.shape.end())}});
    }
    for (const auto& [step, end] : rank.steps)
      if (rank.rank == dump.ranks.front().rank)
        ends[fmt::format("step {}", step)] =
            fmt::format("loss {:.9g}, gradient norm {:.9g}, rate {:.9g}, {}", end.loss, end.grad_norm, end.lr, end.verdict);
  }
  j["ranks"] = dump.ranks.size();
  j["steps"] = ranges_text(steps);
  j["records"] = records;
  j["stored_tensors"] = tensors;
  j["calls_by_phase"] = phases;
  j["calls_by_op"] = ops;
  if (!first_nan.empty()) j["first_nan"] = first_nan;
  if (!ends.empty()) j["step_ends"] = ends;
  if (!dump.ranks.empty() && dump.ranks.front().session.is_object()) {
    Json session = dump.ranks.front().session;
    session.erase("model");
    j["session"] = session;
  }
  if (!limits.empty()) j["ended_for_its_size"] = limits;
  if (damaged > 0) j["damaged_lines"] = damaged;
  j["to_use_it"] = fmt::format("ravine compare {} OTHER_DUMP", shell_word(path));
  if (list) j["tensor_list"] = rows;
  return j;
}

}  // namespace ravine
