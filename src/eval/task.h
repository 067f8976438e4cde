// A benchmark: its items, their prompts in each protocol, and the parser of answers.
//
// Prompts of `generate` are as in ModelLink (tasks/evaluation/eval_impl, March 2024). Prompts of `likelihood` are as in
// the tasks boolq, mmlu, ceval-valid, agieval, piqa and hellaswag of lm-evaluation-harness 0.4.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "eval/item.h"
#include "eval/templates.h"

namespace ravine {

// The settings of benchmark tasks.
struct TaskOptions {
  Protocol protocol = Protocol::generate;
  std::optional<int64_t> shots;  // number of worked examples; empty: the protocol's number
  int64_t limit = 0;             // largest number of items per file; 0: no limit
  EvalSplit split = EvalSplit::val;
  Templates templates;
};

// A benchmark: a row of all_tasks().
struct Task {
  std::string name;
  // Returns the items of the benchmark from a data folder. UserErrors name file and line.
  std::vector<Item> (*load)(const std::string& data, const TaskOptions& options);
  // Returns the answer in a text that the model has generated (answers.h). Null: the text is a program, which is run
  // (HumanEval).
  std::string (*parse)(std::string_view output) = nullptr;
  bool generates = false, ranks = false;  // generates: has protocol generate; ranks: has protocol likelihood
  int64_t new_tokens = 0;                 // protocol generate: most tokens of an answer, as in ModelLink
  bool subjects = false;                  // true: results are also listed by subject
  bool normalised = false;                // protocol likelihood: true if also scored by likelihood per length of choice
  // Protocol generate: true if the probabilities of the first token decide between Yes and No (BoolQ).
  bool first_token = false;
};

const std::vector<Task>& all_tasks();
// Returns the task of this name. An unknown name is a UserError that lists the tasks. A task that does not have the
// protocol is a UserError that names the protocol it has.
const Task& find_task(const std::string& name, Protocol protocol);

// Return the items of a task from a data folder. The functions are in the files of src/eval/tasks/.
std::vector<Item> load_boolq(const std::string& data, const TaskOptions& options);
std::vector<Item> load_mmlu(const std::string& data, const TaskOptions& options);
std::vector<Item> load_gsm8k(const std::string& data, const TaskOptions& options);
std::vector<Item> load_human_eval(const std::string& data, const TaskOptions& options);
std::vector<Item> load_agieval(const std::string& data, const TaskOptions& options);
std::vector<Item> load_bbh(const std::string& data, const TaskOptions& options);
std::vector<Item> load_ceval(const std::string& data, const TaskOptions& options);
std::vector<Item> load_piqa(const std::string& data, const TaskOptions& options);
std::vector<Item> load_hellaswag(const std::string& data, const TaskOptions& options);

}  // namespace ravine
