// Reading what a run, a dump or a log tells of its first two steps.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/missing_path.h"
#include "checks/first_steps.h"
#include "files/compressed.h"
#include "io/run_files.h"
#include "probe/dump_kinds.h"
#include "probe/msprobe_dump.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

constexpr int64_t kLongestLine = int64_t{64} << 20;

// Returns the numbers of a text in brackets, like "[tensor(1.5, device='cuda:0'), 2.5]" or "(1.5, 2.5)".
std::vector<double> numbers_in(const std::string& text) {
  std::vector<double> out;
  const bool tensors = text.find("tensor(") != std::string::npos;
  size_t at = 0;
  while (at < text.size()) {
    if (tensors) {
      at = text.find("tensor(", at);
      if (at == std::string::npos) break;
      at += 7;
      while (at < text.size() && (text[at] == '[' || text[at] == ' ')) ++at;
    } else {
      at = text.find_first_of("+-.0123456789nNi", at);
      if (at == std::string::npos) break;
    }
    double x = std::nan("");
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), x);
    if (error == std::errc::invalid_argument) {
      ++at;
      continue;
    }
    out.push_back(x);
    at = static_cast<size_t>(end - text.data());
  }
  return out;
}

// Reads lines up to the closing bracket, the first of which begins in `line` or in the next one.
std::vector<double> bracketed(LineReader& lines, std::string line, char open, char close) {
  std::string text;
  bool begun = false;
  for (int more = 0; more < 100000; ++more) {
    const size_t from = begun ? 0 : line.find(open);
    if (from != std::string::npos) {
      begun = true;
      text += line.substr(from) + " ";
      if (line.rfind(close) != std::string::npos && (close != ')' || line.find_last_not_of(" \r") == line.rfind(close))) break;
    }
    const auto next = lines.next();
    if (!next) break;
    line = *next;
  }
  return numbers_in(text);
}

// "local    NAME  squares 1.5  norm 1.22": a line of Ravine's log.
void read_own_line(const std::string& line, LocalNorms& norms) {
  const size_t at = line.find("local    "), squares = line.find("  squares "), norm = line.find("  norm ");
  if (at == std::string::npos || squares == std::string::npos || norm == std::string::npos || squares < at) return;
  const std::string name = line.substr(at + 9, squares - at - 9);
  if (std::find(norms.names.begin(), norms.names.end(), name) != norms.names.end()) return;
  norms.names.push_back(name);
  norms.values.push_back(std::strtod(line.c_str() + squares + 10, nullptr));
  norms.squares = true, norms.told_by = "the line says squares";
}

std::optional<LocalNorms> norms_of_log(const std::string& path) {
  LineReader lines(path, kLongestLine);
  LocalNorms own;
  std::vector<double> sizes;
  while (const auto next = lines.next()) {
    const std::string line(*next);
    if (line.find("local norm:") != std::string::npos) {
      LocalNorms out;
      out.values = bracketed(lines, line.substr(line.find("local norm:") + 11), '[', ']');
      if (!out.values.empty()) return out;
    } else if (const size_t at = line.find("norm_size:"); at != std::string::npos) {
      sizes = bracketed(lines, line.substr(at), '(', ')');
    } else if (const size_t from = line.find("local_norm:");
               from != std::string::npos && line.find("embedding_local_norm") == std::string::npos) {
      LocalNorms out;
      out.values = bracketed(lines, line.substr(from), '(', ')');
      if (sizes.size() == out.values.size())
        for (const double x : sizes) out.sizes.push_back(static_cast<int64_t>(x));
      if (!out.values.empty()) return out;
    } else {
      read_own_line(line, own);
    }
  }
  return own.values.empty() ? std::nullopt : std::optional(own);
}

std::optional<LocalNorms> norms_of_metrics(const std::string& file, int64_t step) {
  LineReader lines(file, kMetricsLine);
  while (const auto line = lines.next()) {
    const Json row = Json::parse(*line, nullptr, false);
    if (!row.is_object() || !row.contains("local_norms") || row.value("step", int64_t{0}) != step) continue;
    LocalNorms out;
    for (const auto& [name, of] : row["local_norms"].items()) {
      double sum = 0;
      for (const Json& x : of["squares"]) sum += x.is_number() ? x.get<double>() : std::nan("");
      out.names.push_back(name), out.values.push_back(sum);
      out.ranks = std::max(out.ranks, static_cast<int>(of["squares"].size()));
    }
    out.squares = true, out.told_by = "metrics.jsonl says squares";
    return out;
  }
  return {};
}

// Adds the square of each record's L2 norm to the sum of its parameter.
void add_squares(const Dump& dump, const char* op, const char* tensor, int64_t step, std::map<std::string, double>& to,
                 std::vector<std::string>& order) {
  std::map<std::string, std::vector<std::vector<int64_t>>> seen;
  for (const RankDump& rank : dump.ranks)
    for (const DumpRecord& r : rank.records) {
      if (r.op != op || r.step != step || (*tensor && r.tensor != tensor) || !r.figures.has_statistics) continue;
      const std::string name = r.path.empty() && !r.parameters.empty() ? r.parameters.front() : r.path;
      auto& pieces = seen[name];
      if (std::find(pieces.begin(), pieces.end(), r.at) != pieces.end()) continue;  // the same piece on another rank
      pieces.push_back(r.at);
      if (!to.contains(name)) order.push_back(name);
      to[name] += r.figures.l2 * r.figures.l2;
    }
}

void read_dump_steps(const std::string& path, DumpKind kind, FirstSteps& out) {
  const Dump dump = kind == DumpKind::msprobe ? read_msprobe_modules(path) : read_dump_of(path, kind);
  int64_t first = 0;
  for (const RankDump& rank : dump.ranks) {
    for (const auto& [step, figures] : rank.steps) out.curve.add(step, figures.loss, &figures.grad_norm, &figures.lr);
    for (const DumpRecord& r : rank.records)
      if (r.op == kGradientOp && (first == 0 || r.step < first)) first = r.step;
  }
  std::map<std::string, double> squares, weights;
  std::vector<std::string> order, ignored;
  add_squares(dump, kGradientOp, "", std::max<int64_t>(first, 1), squares, order);
  if (!order.empty()) {
    LocalNorms norms;
    for (const std::string& name : order) norms.names.push_back(name), norms.values.push_back(squares[name]);
    norms.squares = true, norms.told_by = "statistics of the dump";
    out.norms = std::move(norms);
  }
  add_squares(dump, kStateOp, "weights", 1, weights, ignored);
  for (const auto& [name, x] : weights) out.weights[name] = std::sqrt(x);
}

}  // namespace

FirstSteps read_first_steps(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) throw UserError("no such file or folder", path, "it must exist", missing_path_advice(path));
  FirstSteps out;
  const fs::path p = fs::path(path).lexically_normal();
  out.name = (p.has_filename() ? p.filename() : p.parent_path().filename()).string();
  if (const auto kind = dump_kind(path)) {
    out.kind = fmt::format("dump of {}", name(*kind));
    read_dump_steps(path, *kind, out);
    if (out.curve.loss.empty() && !out.norms && out.weights.empty())
      throw UserError("a dump without losses, gradients and weights", path, "they tell the phase of a difference",
                      "dump with what: statistics, and without paths");
    return out;
  }
  out.curve = read_training_curve(path);
  out.kind = out.curve.kind;
  if (fs::is_directory(path, error)) {
    if (fs::is_regular_file(p / "metrics.jsonl", error))
      out.norms = norms_of_metrics((p / "metrics.jsonl").string(), out.curve.loss.begin()->first);
    if (const fs::path folder = p / "checkpoints" / "step_000001"; fs::is_directory(folder, error))
      out.checkpoint = folder.string();
  } else if (p.filename() == "metrics.jsonl") {
    out.norms = norms_of_metrics(path, out.curve.loss.begin()->first);
  } else if (out.kind.starts_with("log")) {
    out.norms = norms_of_log(path);
  }
  return out;
}

}  // namespace ravine
