// A whole evaluation: tasks in the order of ModelLink's program, each with its items, samples as they come, and scores.
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

struct EvaluationOptions {
  std::vector<std::string> tasks;
  std::vector<std::string> data;  // of several a task takes the last that its name is part of
  std::string output;
  TaskOptions of;                         // how tasks are asked
  std::optional<int64_t> max_new_tokens;  // of generate; nothing: the task's own
  std::optional<int64_t> batch;           // items at a time; nothing: 16
  std::string completions;                // a file of {"id", "output"} lines in place of a model; "": none
  bool allow_code = false;
};

// What answers. All must outlive the evaluation.
struct EvaluatedModel {
  const LoadedModel* loaded = nullptr;
  const Tokenizer* tokenizer = nullptr;
  const Recipe* recipe = nullptr;
  std::vector<int32_t> end_ids;
};

class Evaluation {
 public:
  // Reads all that the tasks need, so that mistakes are found before any work: data, templates, completions, the sandbox. Needs
  // no model.
  explicit Evaluation(EvaluationOptions options);

  const EvaluationOptions& options() const { return options_; }
  int64_t items() const;

  // Answers and scores what the folder does not hold yet; writes samples_TASK.jsonl as it goes, results.json and results.csv,
  // which keep what an earlier command has found of other tasks, after each task, CEval's submission behind its test split. answerer: nothing with completions. stop: asked between steps;
  // true ends it with Stopped, and the same call goes on from there. All ranks call it; the first one writes.
  std::vector<TaskResult> run(const EvaluatedModel* answerer, Log& log, const std::function<bool()>& stop);

 private:
  struct Work {
    const Task* task = nullptr;
    std::vector<Item> items;
  };
  struct Job;  // a task being answered
  void read_completions();
  const std::string& data_of(const std::string& task) const;
  void say_examples(const Work& work, Log& log) const;                                     // whose the worked examples are
  std::string judge(const Task& task, const Item& item, const std::string& output) const;  // what it says
  static Json line_of(const Item& item, const std::string& output, const std::string& parsed);
  std::vector<TaskResult> earlier_results() const;  // of tasks that an earlier command has finished in this folder
  void take_completions(Job& job) const;
  void generate_answers(Job& job, const EvaluatedModel& answerer) const;
  void choose_first_tokens(Job& job, const EvaluatedModel& answerer) const;
  void rank_choices(Job& job, const EvaluatedModel& answerer) const;

  EvaluationOptions options_;
  std::vector<Work> works_;
  std::map<std::string, std::string> completions_;  // by id
  std::unique_ptr<Sandbox> sandbox_;
};

// The file that cevalbenchmark.com scores: {SUBJECT: {ID: LETTER}}.
Json ceval_submission(const std::vector<Json>& samples);

}  // namespace ravine
