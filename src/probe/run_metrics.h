// Reads metrics.jsonl of a run, as columns.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace ravine {

// The metrics of a run.
struct RunMetrics {
  struct Point {
    size_t row = 0;
    double value = 0;  // NaN if it is null in the file
  };
  std::string name;                                          // name of the run's folder
  std::map<std::string, std::vector<Point>> value;           // by key: the rows with this key
  std::vector<double> step;                                  // one per row
  std::vector<double> column(const std::string& key) const;  // one value per row; NaN if null or missing
};

// Reads the folder of a run, or the file itself. A last line cut off by a kill is ignored. A UserError if it is no run,
// has no step, or has a line that is too long or is not an object with `step`. An unreadable file is an Error.
RunMetrics read_run_metrics(const std::string& run);

}  // namespace ravine
