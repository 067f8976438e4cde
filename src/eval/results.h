// Scores of a task: accuracy and its standard error, by subject and by category.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "eval/task.h"

namespace ravine {

// The result of one item.
struct Outcome {
  std::string subject;
  bool correct = false, correct_normalised = false;
};

// The counts of a set of items.
struct Score {
  int64_t n = 0, correct = 0, correct_normalised = 0;
  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(n); }
  double accuracy_normalised() const { return static_cast<double>(correct_normalised) / static_cast<double>(n); }
};

// The scores of a task.
struct TaskResult {
  std::string task;
  bool normalised = false;
  Score total;
  // Standard error of the mean of n items: sqrt(p (1 - p) / (n - 1)). For likelihood with several subjects it is
  // pooled, as in lm-evaluation-harness (api/metrics.py, pooled_sample_stderr). 0 if n is 1.
  double stderr_accuracy = 0, stderr_normalised = 0;
  std::map<std::string, Score> subjects, categories;  // ordered by name; empty: the task has none
};

// requires at least one outcome
TaskResult score(const Task& task, Protocol protocol, const std::vector<Outcome>& outcomes);

// {"tasks": {TASK: {"accuracy", "stderr", "n", ..}}}
Json results_json(const std::vector<TaskResult>& results);
// task,subject,n,accuracy,stderr,accuracy_norm,stderr_norm
std::string results_csv(const std::vector<TaskResult>& results);
std::string results_table(const std::vector<TaskResult>& results);  // text table, as the harness prints it

}  // namespace ravine
