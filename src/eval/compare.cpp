#include "eval/compare.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/error.h"
#include "base/missing_path.h"
#include "eval/samples.h"

namespace ravine {
namespace {

std::vector<std::string> tasks_with_samples(const std::string& folder) {
  if (!std::filesystem::is_directory(folder))
    throw UserError("no such folder", folder, "--compare takes two folders of evaluations", missing_path_advice(folder));
  std::vector<std::string> tasks;
  for (const Task& t : all_tasks())
    if (std::filesystem::exists(samples_path(folder, t.name))) tasks.push_back(t.name);
  if (tasks.empty())
    throw UserError("no evaluation", folder, "it holds samples_TASK.jsonl", "name the --output of `ravine eval`");
  return tasks;
}

TaskComparison compare_task(const std::string& task, const std::string& first, const std::string& second) {
  const std::string paths[] = {samples_path(first, task), samples_path(second, task)};
  const std::vector<Json> a = read_samples(paths[0]), b = read_samples(paths[1]);
  if (a.size() != b.size())
    throw UserError(fmt::format("{} and {}", counted(static_cast<int64_t>(a.size()), "item"), b.size()), paths[1],
                    fmt::format("{} has other items", paths[0]), "evaluate both with the same data, --limit and --split");
  TaskComparison c{.task = task, .n = static_cast<int64_t>(a.size())};
  for (size_t i = 0; i < a.size(); ++i) {
    const std::string where[] = {fmt::format("{}:{}", paths[0], i + 1), fmt::format("{}:{}", paths[1], i + 1)};
    const auto id = field<std::string>(a[i], "id", where[0]);
    if (id != field<std::string>(b[i], "id", where[1]))
      throw UserError(fmt::format("another item than '{}'", id), where[1], "both have the same items in the same order",
                      "evaluate both with the same data, --limit and --split");
    const bool right = field<bool>(a[i], "correct", where[0]), right_too = field<bool>(b[i], "correct", where[1]);
    c.both += right && right_too ? 1 : 0;
    if (right && !right_too) c.lost.push_back(id);
    if (!right && right_too) c.won.push_back(id);
  }
  c.only_first = static_cast<int64_t>(c.lost.size());
  c.only_second = static_cast<int64_t>(c.won.size());
  c.p = mcnemar(c.only_first, c.only_second);
  return c;
}

}  // namespace

double mcnemar(int64_t only_first, int64_t only_second) {
  const int64_t n = only_first + only_second, least = std::min(only_first, only_second);
  double sum = 0;
  for (int64_t k = 0; k <= least; ++k)
    sum += std::exp(std::lgamma(static_cast<double>(n + 1)) - std::lgamma(static_cast<double>(k + 1)) -
                    std::lgamma(static_cast<double>(n - k + 1)) - static_cast<double>(n) * std::log(2.0));
  return std::min(1.0, 2 * sum);
}

std::vector<TaskComparison> compare_evaluations(const std::string& first, const std::string& second) {
  const std::vector<std::string> mine = tasks_with_samples(first), others = tasks_with_samples(second);
  std::vector<TaskComparison> all;
  for (const std::string& task : mine)
    if (std::find(others.begin(), others.end(), task) != others.end()) all.push_back(compare_task(task, first, second));
  if (all.empty())
    throw UserError("no task in common", second, fmt::format("{} has {}", first, fmt::join(mine, ", ")),
                    "evaluate the same tasks with both models");
  return all;
}

std::string comparison_table(const std::vector<TaskComparison>& all) {
  std::string out =
      fmt::format("{:<12} {:>6} {:>8} {:>8} {:>8} {:>8} {:>10}\n", "task", "n", "first", "second", "lost", "won", "p");
  for (const TaskComparison& c : all) {
    const double n = static_cast<double>(std::max<int64_t>(1, c.n));
    out += fmt::format("{:<12} {:>6} {:>8.4f} {:>8.4f} {:>8} {:>8} {:>10.4g}\n", c.task, c.n,
                       static_cast<double>(c.both + c.only_first) / n, static_cast<double>(c.both + c.only_second) / n,
                       c.only_first, c.only_second, c.p);
  }
  return out;
}

Json comparison_json(const std::vector<TaskComparison>& all) {
  Json tasks = Json::object();
  for (const TaskComparison& c : all)
    tasks[c.task] = {
        {"n", c.n},       {"both", c.both}, {"only_first", c.only_first}, {"only_second", c.only_second}, {"p", c.p},
        {"lost", c.lost}, {"won", c.won}};
  return Json{{"tasks", std::move(tasks)}};
}

}  // namespace ravine
