// Scores of a task: accuracy, its standard error, by subject and by category.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "eval/task.h"

namespace ravine {

struct Outcome {
  std::string subject;
  bool correct = false, correct_normalised = false;
};

struct Score {
  int64_t n = 0, correct = 0, correct_normalised = 0;
  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(n); }
  double accuracy_normalised() const { return static_cast<double>(correct_normalised) / static_cast<double>(n); }
};

struct TaskResult {
  std::string task;
  bool normalised = false;
  Score total;
  // Of the mean of n: sqrt(p (1 - p) / (n - 1)). Of likelihood over several subjects it is pooled as lm-evaluation-harness does
  // (api/metrics.py, pooled_sample_stderr). 0 where n is 1.
  double stderr_accuracy = 0, stderr_normalised = 0;
  std::map<std::string, Score> subjects, categories;  // in order of names; empty: the task has none
};

TaskResult score(const Task& task, Protocol protocol, const std::vector<Outcome>& outcomes);  // at least one

Json results_json(const std::vector<TaskResult>& results);          // {"tasks": {TASK: {"accuracy", "stderr", "n", ..}}}
std::string results_csv(const std::vector<TaskResult>& results);    // task,subject,n,accuracy,stderr,accuracy_norm,stderr_norm
std::string results_table(const std::vector<TaskResult>& results);  // for people, as the harness shows it

}  // namespace ravine
