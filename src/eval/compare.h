// Compares two evaluations of the same items: the changed answers, and McNemar's exact test (Biometrika 12, 1947).
// Under its hypothesis both models are equally good. An item that only one model got right is then a fair coin toss.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"

namespace ravine {

// The comparison of two evaluations in one task: the result of compare_evaluations().
struct TaskComparison {
  std::string task;
  // Numbers of items: in all; right in both evaluations; right only in the first, only in the second.
  int64_t n = 0, both = 0, only_first = 0, only_second = 0;
  double p = 1;                        // two-sided p value of McNemar's test; near 1: no difference is shown
  std::vector<std::string> lost, won;  // lost: ids of items right only in the first evaluation; won: only in the second
};

// Returns the two-sided exact p value of McNemar's test: 2 P(X <= min(b, c)), at most 1, where X is binomial with b + c
// throws of probability 1/2. b = only_first and c = only_second: numbers of items right in one evaluation only.
double mcnemar(int64_t only_first, int64_t only_second);

// Compares two evaluations. first, second: their result folders. Returns one entry per task for which both folders have
// samples. No such task, or a task with different items in the two folders, is a UserError.
std::vector<TaskComparison> compare_evaluations(const std::string& first, const std::string& second);
std::string comparison_table(const std::vector<TaskComparison>& all);
Json comparison_json(const std::vector<TaskComparison>& all);

}  // namespace ravine
