#include "probe/dump_log.h"

#include <fcntl.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <unordered_map>

#include "base/text.h"
#include "files/atomic.h"
#include "files/checksum.h"
#include "files/mapped_file.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

constexpr const char* kDumpMark = "dump.json";
constexpr size_t kSumDigits = 16;
constexpr int64_t kMostMark = 1 << 20;  // most bytes of dump.json

// Returns a number as JSON, or as a JSON text if it is not finite.
std::string number(double x) {
  if (std::isfinite(x)) return fmt::format("{:.17g}", x);
  return std::isnan(x) ? "\"nan\"" : x > 0 ? "\"inf\"" : "\"-inf\"";
}

double number(const Json& j) {
  if (j.is_number()) return j.get<double>();
  const std::string text = j.is_string() ? j.get<std::string>() : "";
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  return std::numeric_limits<double>::quiet_NaN();
}

std::string quoted(const std::string& text) { return Json(text).dump(-1, ' ', true, Json::error_handler_t::replace); }

std::vector<std::string> quoted(const std::vector<std::string>& texts) {
  std::vector<std::string> out;
  for (const std::string& t : texts) out.push_back(quoted(t));
  return out;
}

std::string statistics_json(const TensorFigures& f) {
  return fmt::format(
      R"({{"count":{},"finite":{},"nan":{},"plus_inf":{},"minus_inf":{},"zero":{},"min":{},"max":{},"abs_max":{},"mean":{},"std":{},"l1":{},"l2":{}}})",
      f.count, f.finite, f.nan, f.plus_inf, f.minus_inf, f.zero, number(f.min), number(f.max), number(f.abs_max),
      number(f.mean), number(f.std), number(f.l1), number(f.l2));
}

TensorFigures figures_from(const Json& record, int64_t count, const std::string& where) {
  TensorFigures f;
  f.count = count;
  const Json& sums = array_field(record, "sums", where);
  if (sums.size() != 2 || !sums[0].is_string() || !sums[1].is_string() ||
      !parse_checksum(sums[0].get<std::string>(), &f.order_free) || !parse_checksum(sums[1].get<std::string>(), &f.positional))
    fail("{}: sums are two checksums", where);
  if (!record.contains("statistics")) return f;
  const Json& s = record["statistics"];
  f.has_statistics = true;
  for (const auto& [key, to] : {std::pair{"finite", &f.finite},
                                {"nan", &f.nan},
                                {"plus_inf", &f.plus_inf},
                                {"minus_inf", &f.minus_inf},
                                {"zero", &f.zero}})
    *to = field<int64_t>(s, key, where);
  for (const auto& [key, to] : {std::pair{"min", &f.min},
                                {"max", &f.max},
                                {"abs_max", &f.abs_max},
                                {"mean", &f.mean},
                                {"std", &f.std},
                                {"l1", &f.l1},
                                {"l2", &f.l2}})
    if (s.contains(key)) *to = number(s[key]);
  return f;
}

std::vector<int64_t> integers(const Json& record, const char* key, const std::string& where) {
  std::vector<int64_t> out;
  if (record.contains(key))
    for (const Json& n : array_field(record, key, where)) {
      if (!n.is_number_integer() || n.get<int64_t>() < 0) fail("{}: '{}' holds sizes", where, key);
      out.push_back(n.get<int64_t>());
    }
  return out;
}

DumpRecord record_from(const Json& j, const std::string& where) {
  DumpRecord r;
  r.step = field<int64_t>(j, "step", where);
  r.micro = field<int64_t>(j, "micro", where);
  const auto phase = value_named<Phase>(field<std::string>(j, "phase", where));
  const auto dtype = parse_dtype(field<std::string>(j, "dtype", where));
  if (!phase || !dtype) fail("{}: phase or dtype is not known", where);
  r.phase = *phase, r.dtype = *dtype;
  r.path = field<std::string>(j, "path", where);
  r.op = field<std::string>(j, "op", where);
  r.n = field<int64_t>(j, "n", where);
  r.tensor = field<std::string>(j, "tensor", where);
  r.output = field<std::string>(j, "io", where) == "output";
  const std::vector<int64_t> shape = integers(j, "shape", where);
  if (shape.size() > 5) fail("{}: a shape of {} dims", where, shape.size());
  for (const int64_t n : shape) r.shape.push_back(n);
  if (r.shape.count() > std::numeric_limits<int64_t>::max() / size_of(r.dtype)) fail("{}: a shape without end", where);
  r.at = integers(j, "at", where), r.global = integers(j, "global", where);
  if (j.contains("parameters"))
    for (const Json& p : array_field(j, "parameters", where)) r.parameters.push_back(p.get<std::string>());
  if (j.contains("values"))
    for (const Json& v : array_field(j, "values", where)) r.values.push_back(number(v));
  if (j.contains("settings"))
    for (const auto& [key, value] : j["settings"].items()) r.settings.emplace_back(key, number(value));
  r.figures = figures_from(j, r.shape.count(), where);
  r.file = field_or<std::string>(j, "file", where, ""), r.stored = field_or<std::string>(j, "stored", where, "");
  // A changed file must not lead to another folder.
  if (("/" + r.file + "/").find("/../") != std::string::npos || r.file.starts_with('/'))
    fail("{}: a file outside of the dump", where);
  return r;
}

// Adds the content of a line; a damaged line is counted.
class RankReader {
 public:
  explicit RankReader(RankDump& to) : to_(to) {}

  void line(std::string_view text, const std::string& where) {
    uint64_t sum = 0;
    if (text.size() < kSumDigits + 2 || !parse_checksum(text.substr(0, kSumDigits), &sum) ||
        checksum_of(std::as_bytes(std::span(text.substr(kSumDigits + 1)))) != sum) {
      ++to_.damaged;
      return;
    }
    try {
      take(parse_json(text.substr(kSumDigits + 1), where), where);
    } catch (const std::exception&) {
      ++to_.damaged;
    }
  }

 private:
  void take(Json j, const std::string& where) {
    if (j.contains("session")) {
      to_.session = j["session"];
      to_.limit.reset();
    } else if (j.contains("limit")) {
      to_.limit = field<int64_t>(j, "limit", where);
    } else if (j.contains("end")) {
      DumpedStep& s = to_.steps[field<int64_t>(j, "end", where)];
      s = {.loss = number(j.value("loss", Json())),
           .grad_norm = number(j.value("grad_norm", Json())),
           .lr = number(j.value("lr", Json())),
           .loss_scale = number(j.value("loss_scale", Json())),
           .verdict = field_or<std::string>(j, "verdict", where, "")};
    } else {
      DumpRecord r = record_from(j, where);
      const auto [it, fresh] = index_.try_emplace(r.key(), to_.records.size());
      if (fresh)
        to_.records.push_back(std::move(r));
      else
        to_.records[it->second] = std::move(r);
    }
  }

  RankDump& to_;
  std::unordered_map<std::string, size_t> index_;  // index of a record, by key
};

int rank_in(const std::string& name) {
  if (!name.starts_with("rank_") || !name.ends_with(".log")) return -1;
  const std::string digits = name.substr(5, name.size() - 9);
  if (digits.empty() || digits.size() > 6 || digits.find_first_not_of("0123456789") != std::string::npos) return -1;
  const int rank = std::stoi(digits);
  return digits == std::to_string(rank) ? rank : -1;  // a rank has one file name
}

Fd open_at_end(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!fd) throw_system("open file", path, errno);
  return fd;
}

}  // namespace

std::string DumpRecord::call() const { return fmt::format("{}/{}/{}/{}/{}/{}", step, micro, name(phase), path, op, n); }

std::string DumpRecord::key() const {
  return fmt::format("{}/{}/{}/{}", call(), tensor, output ? "output" : "input", fmt::join(at, ","));
}

std::vector<std::byte> joined_parts(const DumpRecord& r,
                                    const std::function<std::span<const std::byte>(const StoredPart&)>& fetch) {
  std::vector<std::byte> out;
  const int64_t columns = r.shape.rank() ? r.shape[-1] : 1, rows = columns > 0 ? r.shape.count() / columns : 0;
  if (r.join_rows || r.parts.size() == 1) {
    for (const StoredPart& p : r.parts) {
      const auto bytes = fetch(p);
      out.insert(out.end(), bytes.begin(), bytes.end());
    }
  } else {
    for (int64_t row = 0; row < rows; ++row)
      for (const StoredPart& p : r.parts) {
        const auto bytes = fetch(p);
        const size_t each = bytes.size() / static_cast<size_t>(rows);
        const auto from = bytes.subspan(static_cast<size_t>(row) * each, each);
        out.insert(out.end(), from.begin(), from.end());
      }
  }
  if (static_cast<int64_t>(out.size()) != r.shape.count() * size_of(r.dtype))
    throw UserError(fmt::format("{} bytes are not a {} {}", out.size(), name(r.dtype), r.shape.text()), r.parts.front().stored,
                    "parts of one tensor have as many rows", "record the trace again");
  return out;
}

bool is_dump(const std::string& folder) {
  std::error_code error;
  const std::string mark = folder + "/" + kDumpMark;
  if (!fs::is_regular_file(mark, error)) return false;
  try {
    const Json j = read_json(mark, kMostMark);
    return j.is_object() && j.contains("ravine") && j["ravine"] == "dump";
  } catch (const UserError&) {
    return false;
  }
}

void refuse_other_than_dump(const std::string& folder) {
  std::error_code error;
  if (!fs::exists(folder, error) || is_dump(folder)) return;
  if (!fs::is_directory(folder, error))
    throw UserError("not a folder", folder, "a dump is a folder of its own", "choose another dir in probe.dump");
  if (fs::directory_iterator(folder, error) != fs::directory_iterator())
    throw UserError("a folder that is no dump", folder,
                    "a dump needs a new or empty folder, or the folder of an older dump to continue",
                    "choose another dir in probe.dump");
}

Dump read_dump(const std::string& folder) {
  if (!is_dump(folder))
    throw UserError("not a dump", folder, "a dump is a folder with dump.json and rank_N.log", "name the dir of a probe.dump");
  Dump dump{folder, {}};
  for (const auto& entry : fs::directory_iterator(folder)) {
    const int rank = rank_in(entry.path().filename().string());
    if (rank < 0) continue;
    dump.ranks.emplace_back().rank = rank;
  }
  std::sort(dump.ranks.begin(), dump.ranks.end(), [](const RankDump& a, const RankDump& b) { return a.rank < b.rank; });
  for (RankDump& r : dump.ranks) {
    const std::string path = fmt::format("{}/rank_{}.log", folder, r.rank);
    const MappedFile file(path, MappedFile::Use::sequential);
    std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
    RankReader reader(r);
    for (int64_t number = 1; !text.empty(); ++number) {
      const size_t end = std::min(text.find('\n'), text.size());
      if (end > 0) reader.line(text.substr(0, end), fmt::format("{}:{}", path, number));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
  return dump;
}

DumpLog::DumpLog(const std::string& folder, int rank, const Json& run) {
  create_folders(folder);
  const std::string path = fmt::format("{}/rank_{}.log", folder, rank), mark = folder + "/" + kDumpMark;
  if (!is_dump(folder)) {
    write_file_atomic(
        mark,
        Json{{"ravine", "dump"}, {"version", 1}, {"run", run}}.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n");
  } else {
    const Json was = read_json(mark, kMostMark).value("run", Json::object());
    for (const auto& [key, value] : run.items())
      if (was.contains(key) && was[key] != value)
        throw UserError(key == "model"
                            ? "the dump there is of another model"
                            : fmt::format("the dump there is of a run with {} {}, not {}", key, was[key].dump(), value.dump()),
                        mark, "one folder holds steps of one run", "choose another dir in probe.dump");
  }
  file_ = AppendedFile(open_at_end(path), path);
  if (file_.size() > 0) file_.append("\n");  // ends the incomplete line of a killed run
}

void DumpLog::line(const std::string& json) {
  file_.append(fmt::format("{} {}\n", checksum_text(checksum_of(std::as_bytes(std::span(json)))), json));
}

void DumpLog::begin(const Json& session) {
  line(Json{{"session", session}}.dump(-1, ' ', true, Json::error_handler_t::replace));
}

void DumpLog::add(const DumpRecord& r) {
  std::string more;
  if (!r.at.empty()) more += fmt::format(R"("at":[{}],"global":[{}],)", fmt::join(r.at, ","), fmt::join(r.global, ","));
  if (!r.parameters.empty()) more += fmt::format(R"("parameters":[{}],)", fmt::join(quoted(r.parameters), ","));
  if (!r.values.empty()) {
    std::vector<std::string> values;
    for (const double v : r.values) values.push_back(number(v));
    more += fmt::format(R"("values":[{}],)", fmt::join(values, ","));
  }
  if (!r.settings.empty()) {
    std::vector<std::string> settings;
    for (const auto& [key, value] : r.settings) settings.push_back(fmt::format("{}:{}", quoted(key), number(value)));
    more += fmt::format(R"("settings":{{{}}},)", fmt::join(settings, ","));
  }
  std::string last;
  if (r.figures.has_statistics) last += fmt::format(R"(,"statistics":{})", statistics_json(r.figures));
  if (!r.file.empty()) last += fmt::format(R"(,"file":{},"stored":{})", quoted(r.file), quoted(r.stored));
  line(fmt::format(
      R"({{"step":{},"micro":{},"phase":"{}","path":{},"op":{},"n":{},"tensor":{},"io":"{}","dtype":"{}","shape":[{}],{}"sums":["{}","{}"]{}}})",
      r.step, r.micro, name(r.phase), quoted(r.path), quoted(r.op), r.n, quoted(r.tensor), r.output ? "output" : "input",
      name(r.dtype), fmt::join(r.shape.begin(), r.shape.end(), ","), more, checksum_text(r.figures.order_free),
      checksum_text(r.figures.positional), last));
}

void DumpLog::end_step(int64_t step, const DumpedStep& s) {
  line(fmt::format(R"({{"end":{},"loss":{},"grad_norm":{},"lr":{},"loss_scale":{},"verdict":{}}})", step, number(s.loss),
                   number(s.grad_norm), number(s.lr), number(s.loss_scale), quoted(s.verdict)));
}

void DumpLog::limit(int64_t bytes, int64_t step) { line(fmt::format(R"({{"limit":{},"step":{}}})", bytes, step)); }

}  // namespace ravine
