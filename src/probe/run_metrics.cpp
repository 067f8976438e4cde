#include "probe/run_metrics.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "files/compressed.h"
#include "io/run_files.h"

namespace ravine {
namespace fs = std::filesystem;

RunMetrics read_run_metrics(const std::string& run) {
  fs::path file = run;
  if (fs::is_directory(file)) file /= "metrics.jsonl";
  RunMetrics out;
  out.name = fs::absolute(file).parent_path().filename().string();
  if (!fs::is_regular_file(file))  // checked before opening: opening a pipe waits for a writer
    throw UserError("no metrics", run, "a run's folder holds metrics.jsonl",
                    "name the folder that train.output named, or its metrics.jsonl");
  LineReader lines(file.string(), kMetricsLine);
  while (const auto line = lines.next()) {
    const std::string where = fmt::format("{}, line {}", file.string(), lines.line_number());
    Json row;
    try {
      row = parse_json(*line, where);
    } catch (const UserError&) {
      if (lines.cut()) break;  // the last line was being written
      throw;
    }
    if (!row.is_object() || !row.contains("step") || !row["step"].is_number())
      throw UserError("not a line of metrics", where, "each line is an object with a number `step`",
                      "name a metrics.jsonl that a run has written");
    out.step.push_back(row["step"].get<double>());
    for (const auto& [key, v] : row.items()) {
      if (key == "step" || (!v.is_number() && !v.is_null())) continue;
      out.value[key].push_back({out.step.size() - 1, v.is_number() ? v.get<double>() : std::nan("")});
    }
  }
  if (out.step.empty())
    throw UserError("no steps", file.string(), "a run writes a line for each logged step", "wait for its first step");
  return out;
}

std::vector<double> RunMetrics::column(const std::string& key) const {
  std::vector<double> all(step.size(), std::nan(""));
  if (const auto it = value.find(key); it != value.end())
    for (const Point& p : it->second) all[p.row] = p.value;
  return all;
}

}  // namespace ravine
