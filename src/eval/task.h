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

// The options of a task.
struct TaskOptions {
  Protocol protocol = Protocol::generate;
  std::optional<int64_t> shots;  // number of worked examples; empty: the protocol's number
  int64_t limit = 0;             // items per file; 0: all
  EvalSplit split = EvalSplit::val;
  Templates templates;
};

// A benchmark.
struct Task {
  std::string name;
  std::vector<Item> (*load)(const std::string& data, const TaskOptions& options);  // UserErrors name file and line
  // null: the answer is run (HumanEval)
  std::string (*parse)(std::string_view output) = nullptr;
  bool generates = false, ranks = false;  // generates: has protocol generate; ranks: has protocol likelihood
  int64_t new_tokens = 0;                 // for generate: ModelLink's setting
  bool subjects = false;                  // results are also listed by subject
  bool normalised = false;                // likelihood: also scored per length of the choice
  // generate: the probabilities of the first token decide between Yes and No (BoolQ)
  bool first_token = false;
};

const std::vector<Task>& all_tasks();
// Returns a task. An unknown name is a UserError that lists the tasks. If the task lacks the protocol, the error names
// the other one.
const Task& find_task(const std::string& name, Protocol protocol);

// Return the items of a task; each is a file of tasks/.
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
