// metrics.jsonl of a run, as columns.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace ravine {

struct RunMetrics {
  struct Point {
    size_t row = 0;
    double value = 0;  // null in the file: not a number
  };
  std::string name;                                          // of the run's folder
  std::map<std::string, std::vector<Point>> value;           // by key: the rows that have it
  std::vector<double> step;                                  // one per row
  std::vector<double> column(const std::string& key) const;  // a value per row; null or absent: not a number
};

// `run`: the folder, or the file itself. A last line that was cut off by a kill is passed over. Errors: UserError for what is
// no run, holds no step, or has a line that is too long or not an object with a `step`; Error where
// it cannot be read.
RunMetrics read_run_metrics(const std::string& run);

}  // namespace ravine
