// Reads metrics.jsonl of a run, as columns.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace ravine {

// The contents of metrics.jsonl of a run, as columns: the result of read_run_metrics().
struct RunMetrics {
  struct Point {
    size_t row = 0;
    double value = 0;  // NaN if it is null in the file
  };
  std::string name;                                 // name of the run's folder
  std::map<std::string, std::vector<Point>> value;  // for each key: the rows that have it, with their values
  std::vector<double> step;                         // the step of each row
  // Returns the value of a key for each row; NaN if it is null or missing.
  std::vector<double> column(const std::string& key) const;
};

// Reads metrics.jsonl. run: the folder of a run, or the file itself. A last line cut off by a kill is ignored. A
// UserError if the path is no run, if the file has no step, or if a line is too long or is not an object with `step`.
// An unreadable file is an Error.
RunMetrics read_run_metrics(const std::string& run);

}  // namespace ravine
