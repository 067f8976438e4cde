// A whole evaluation: the tasks in the order of ModelLink's program, with items, samples and scores.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "eval/code_run.h"
#include "eval/results.h"
#include "eval/samples.h"
#include "infer/generator.h"
#include "text/tokenizer.h"

namespace ravine {

// The settings of an Evaluation.
struct EvaluationOptions {
  std::vector<std::string> tasks;
  std::vector<std::string> data;  // data folders; a task uses the last one with its name in the path
  std::string output;
  TaskOptions of;                         // the settings of all tasks
  std::optional<int64_t> max_new_tokens;  // protocol generate: most tokens of an answer; empty: the task's default
  std::optional<int64_t> batch;           // items per batch; empty: 16
  std::string completions;                // file of {"id", "output"} lines, used in place of a model; "": none
  bool allow_code = false;
};

// The model under evaluation. All pointers must outlive the evaluation.
struct EvaluatedModel {
  const LoadedModel* loaded = nullptr;
  const Tokenizer* tokenizer = nullptr;
  const Recipe* recipe = nullptr;
  std::vector<int32_t> end_ids;
};

// Evaluates a model on benchmark tasks.
class Evaluation {
 public:
  // Reads all inputs of the tasks, so that mistakes are found before any work: data, templates, completions, the
  // sandbox. Needs no model.
  explicit Evaluation(EvaluationOptions options);

  const EvaluationOptions& options() const { return options_; }
  int64_t items() const;

  // Answers and scores the items for which the output folder has no samples yet, and returns the results of all tasks.
  // Writes samples_TASK.jsonl line by line. After each task it writes results.json and results.csv, which keep the
  // results of other tasks from earlier commands, or CEval's submission for the test split. answerer: the model; null
  // if options().completions has the answers. stop: called between steps; if it returns true, run() throws Stopped, and
  // a later call continues there. All ranks call it together; the first one writes.
  std::vector<TaskResult> run(const EvaluatedModel* answerer, Log& log, const std::function<bool()>& stop);

 private:
  struct Work {
    const Task* task = nullptr;
    std::vector<Item> items;
  };
  struct Job;  // a task in progress
  void read_completions();
  const std::string& data_of(const std::string& task) const;
  void log_examples(const Work& work, Log& log) const;  // logs the source of the worked examples
  std::string judge(const Task& task, const Item& item, const std::string& output) const;  // returns the parsed answer
  static Json line_of(const Item& item, const std::string& output, const std::string& parsed);
  std::vector<TaskResult> earlier_results() const;  // results of earlier commands in this folder
  void take_completions(Job& job) const;
  void generate_answers(Job& job, const EvaluatedModel& answerer) const;
  void choose_first_tokens(Job& job, const EvaluatedModel& answerer) const;
  void rank_choices(Job& job, const EvaluatedModel& answerer) const;

  EvaluationOptions options_;
  std::vector<Work> works_;
  std::map<std::string, std::string> completions_;  // by id
  std::unique_ptr<Sandbox> sandbox_;
};

// Returns the contents of the file that cevalbenchmark.com scores: {SUBJECT: {ID: LETTER}}. samples: the lines of
// samples_ceval.jsonl.
Json ceval_submission(const std::vector<Json>& samples);

}  // namespace ravine
