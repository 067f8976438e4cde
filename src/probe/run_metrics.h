// metrics.jsonl of a run, as columns.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace ravine {

struct RunMetrics {
  std::string name;                                  // of the run's folder
  std::map<std::string, std::vector<double>> value;  // by key; null or absent: not a number
  std::vector<double> step;                          // one per row
};

// `run`: the folder, or the file itself. A last line that was cut off by a kill is passed over. Errors: UserError for what is no run, holds no
// step, or has a line that is not an object with a `step`.
RunMetrics read_run_metrics(const std::string& run);

}  // namespace ravine
