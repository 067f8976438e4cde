// A benchmark: where its items are, what they are asked by each protocol, what an answer says.
//
// Prompts of `generate` are those of ModelLink (tasks/evaluation/eval_impl, March 2024), those of `likelihood` lm-evaluation-
// harness 0.4's tasks boolq, mmlu, ceval-valid, agieval, piqa and hellaswag.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "eval/item.h"
#include "eval/templates.h"

namespace ravine {

struct TaskOptions {
  Protocol protocol = Protocol::generate;
  std::optional<int64_t> shots;  // worked examples; nothing: as many as the protocol shows
  int64_t limit = 0;             // items of each file; 0: all
  EvalSplit split = EvalSplit::val;
  Templates templates;
};

struct Task {
  std::string name;
  std::vector<Item> (*load)(const std::string& data, const TaskOptions& options);  // UserErrors name file and line
  std::string (*parse)(std::string_view output) = nullptr;                         // null: the answer is run (HumanEval)
  bool generates = false, ranks = false;                                           // which protocols it has
  int64_t new_tokens = 0;                                                          // of generate: ModelLink's setting
  bool subjects = false;                                                           // results are said by subject too
  bool normalised = false;   // of likelihood: also by the length of choices
  bool first_token = false;  // of generate: the probabilities of one token decide between Yes and No (BoolQ)
};

const std::vector<Task>& all_tasks();
// A name that is not known is a UserError that lists the tasks; a task that has no such protocol names the other.
const Task& find_task(const std::string& name, Protocol protocol);

// The files of tasks/, one function each: the items of a task.
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
