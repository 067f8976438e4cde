// Whether two evaluations of the same items differ: what changed, and McNemar's exact test of it (Biometrika 12, 1947): among
// the items that only one of the two got right, which of them is a fair coin if both are equally good.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"

namespace ravine {

struct TaskComparison {
  std::string task;
  int64_t n = 0, both = 0, only_first = 0, only_second = 0;
  double p = 1;                        // of a difference as large, two-sided
  std::vector<std::string> lost, won;  // ids: only the first, only the second had them right
};

// Two-sided, exact: 2 P(X <= min(b, c)) of a binomial of b + c throws, at most 1.
double mcnemar(int64_t only_first, int64_t only_second);

// Of all tasks that both folders have samples of. None, or other items, are UserErrors.
std::vector<TaskComparison> compare_evaluations(const std::string& first, const std::string& second);
std::string comparison_table(const std::vector<TaskComparison>& all);
Json comparison_json(const std::vector<TaskComparison>& all);

}  // namespace ravine
