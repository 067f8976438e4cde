#include "eval/results.h"

#include <algorithm>
#include <cmath>

#include "base/csv_text.h"
#include "eval/subjects.h"

namespace ravine {
namespace {

double stderr_of(double p, int64_t n) { return n > 1 ? std::sqrt(p * (1 - p) / static_cast<double>(n - 1)) : 0; }

// Returns the standard error of the mean over all items, if each subject has its own variance.
double pooled_stderr(const std::map<std::string, Score>& subjects, double (Score::*accuracy)() const) {
  double squares = 0;
  int64_t n = 0;
  for (const auto& [_, s] : subjects) {
    const double p = (s.*accuracy)();
    squares += static_cast<double>(s.n) * p * (1 - p);  // (n - 1) * the variance of a sample
    n += s.n;
  }
  const auto free = n - static_cast<int64_t>(subjects.size());
  return free > 0 ? std::sqrt(squares / static_cast<double>(free) / static_cast<double>(n)) : 0;
}

void count(Score& s, const Outcome& o) {
  ++s.n;
  s.correct += o.correct ? 1 : 0;
  s.correct_normalised += o.correct_normalised ? 1 : 0;
}

Json score_json(const Score& s, bool normalised) {
  Json j{{"accuracy", s.accuracy()}, {"n", s.n}};
  if (normalised) j["accuracy_norm"] = s.accuracy_normalised();
  return j;
}

}  // namespace

TaskResult score(const Task& task, Protocol protocol, const std::vector<Outcome>& outcomes) {
  TaskResult r;
  r.task = task.name;
  r.normalised = protocol == Protocol::likelihood && task.normalised;
  for (const Outcome& o : outcomes) {
    count(r.total, o);
    if (!task.subjects) continue;
    count(r.subjects[o.subject], o);
    for (const std::string& c : categories_of(task.name, o.subject)) count(r.categories[c], o);
  }
  require(r.total.n > 0, "eval: {} has no items", task.name);
  const bool pooled = protocol == Protocol::likelihood && task.subjects;
  r.stderr_accuracy = pooled ? pooled_stderr(r.subjects, &Score::accuracy) : stderr_of(r.total.accuracy(), r.total.n);
  r.stderr_normalised =
      pooled ? pooled_stderr(r.subjects, &Score::accuracy_normalised) : stderr_of(r.total.accuracy_normalised(), r.total.n);
  return r;
}

Json results_json(const std::vector<TaskResult>& results) {
  Json tasks = Json::object();
  for (const TaskResult& r : results) {
    Json j{{"accuracy", r.total.accuracy()}, {"stderr", r.stderr_accuracy}};
    if (r.normalised) j["accuracy_norm"] = r.total.accuracy_normalised(), j["stderr_norm"] = r.stderr_normalised;
    j["n"] = r.total.n;
    for (const auto& [key, of] : {std::pair("categories", &r.categories), std::pair("subjects", &r.subjects)})
      for (const auto& [name, s] : *of) j[key][name] = score_json(s, r.normalised);
    tasks[r.task] = std::move(j);
  }
  return Json{{"tasks", std::move(tasks)}};
}

std::string results_csv(const std::vector<TaskResult>& results) {
  std::string out = "task,subject,n,accuracy,stderr,accuracy_norm,stderr_norm\n";
  for (const TaskResult& r : results) {
    for (const auto& [name, s] : r.subjects)
      out += fmt::format("{},{},{},{},{},{},{}\n", r.task, csv_text(name), s.n, s.accuracy(), stderr_of(s.accuracy(), s.n),
                         r.normalised ? fmt::format("{}", s.accuracy_normalised()) : "",
                         r.normalised ? fmt::format("{}", stderr_of(s.accuracy_normalised(), s.n)) : "");
    out += fmt::format("{},total,{},{},{},{},{}\n", r.task, r.total.n, r.total.accuracy(), r.stderr_accuracy,
                       r.normalised ? fmt::format("{}", r.total.accuracy_normalised()) : "",
                       r.normalised ? fmt::format("{}", r.stderr_normalised) : "");
  }
  return out;
}

std::string results_table(const std::vector<TaskResult>& results) {
  size_t width = 5;
  for (const TaskResult& r : results) {
    width = std::max(width, r.task.size());
    for (const auto& [name, _] : r.categories) width = std::max(width, name.size() + 3);
  }
  const std::string rule = fmt::format("|{0:-<{1}}|{0:->8}|{0:->10}|{0:->8}|   |{0:->8}|\n", "", width + 2);
  std::string out =
      fmt::format("| {:<{}} | {:>6} | {:<8} | {:>6} |   | {:>6} |\n", "task", width, "n", "metric", "value", "stderr");
  out += rule;
  auto row = [&](const std::string& name, int64_t n, const char* metric, double value, double error) {
    out += fmt::format("| {:<{}} | {:>6} | {:<8} | {:>6.4f} | ± | {:>6.4f} |\n", name, width, n, metric, value, error);
  };
  for (const TaskResult& r : results) {
    row(r.task, r.total.n, "acc", r.total.accuracy(), r.stderr_accuracy);
    if (r.normalised) row("", r.total.n, "acc_norm", r.total.accuracy_normalised(), r.stderr_normalised);
    for (const auto& [name, s] : r.categories) row(" - " + name, s.n, "acc", s.accuracy(), stderr_of(s.accuracy(), s.n));
  }
  return out;
}

}  // namespace ravine
