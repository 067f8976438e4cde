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
  bool correct = false, correct_normalised = false;  // correct_normalised: right by the likelihood per length
};

// The counts of right answers in a set of items. n: number of items. correct_normalised: right by the likelihood per
// length of the choice.
struct Score {
  int64_t n = 0, correct = 0, correct_normalised = 0;
  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(n); }
  double accuracy_normalised() const { return static_cast<double>(correct_normalised) / static_cast<double>(n); }
};

// The scores of a task: the result of score().
struct TaskResult {
  std::string task;
  bool normalised = false;  // true: the task is also scored by the likelihood per length of the choice
  Score total;
  // Standard errors of the accuracies: sqrt(p (1 - p) / (n - 1)) for n items and accuracy p; 0 if n is 1. For protocol
  // likelihood with several subjects they are pooled, as in lm-evaluation-harness (api/metrics.py,
  // pooled_sample_stderr).
  double stderr_accuracy = 0, stderr_normalised = 0;
  std::map<std::string, Score> subjects, categories;  // ordered by name; empty: the task has none
};

// Returns the scores of a task from the results of its items. outcomes: at least one.
TaskResult score(const Task& task, Protocol protocol, const std::vector<Outcome>& outcomes);

// Returns the contents of results.json: {"tasks": {TASK: {"accuracy", "stderr", "n", ..}}}
Json results_json(const std::vector<TaskResult>& results);
// Returns the contents of results.csv, with the columns task,subject,n,accuracy,stderr,accuracy_norm,stderr_norm.
std::string results_csv(const std::vector<TaskResult>& results);
// Returns the results as a text table in the format of lm-evaluation-harness.
std::string results_table(const std::vector<TaskResult>& results);

}  // namespace ravine
