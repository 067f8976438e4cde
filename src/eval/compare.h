// Compares two evaluations of the same items: the changed answers, and McNemar's exact test (Biometrika 12, 1947).
// Under its hypothesis both models are equally good. An item that only one model got right is then a fair coin toss.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"

namespace ravine {

// The comparison of one task.
struct TaskComparison {
  std::string task;
  int64_t n = 0, both = 0, only_first = 0, only_second = 0;
  double p = 1;                        // two-sided p value of the difference
  std::vector<std::string> lost, won;  // ids that only the first, or only the second, got right
};

// Returns the two-sided exact p value: 2 P(X <= min(b, c)) of a binomial with b + c throws, at most 1.
double mcnemar(int64_t only_first, int64_t only_second);

// Returns the comparison of all tasks for which both folders have samples. No such task, or different items, are
// UserErrors.
std::vector<TaskComparison> compare_evaluations(const std::string& first, const std::string& second);
std::string comparison_table(const std::vector<TaskComparison>& all);
Json comparison_json(const std::vector<TaskComparison>& all);

}  // namespace ravine
