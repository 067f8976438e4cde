// The questions that a prompt shows with their answers: those of the dev file of each subject.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "eval/task.h"
#include "eval/tasks/multiple_choice.h"

namespace ravine {

class WorkedExamples {
 public:
  // shots: how many of each subject; `patterns` of the files, as find_task_files takes them.
  WorkedExamples(const std::string& data, const std::string& task, const std::vector<std::string>& patterns, bool header,
                 int64_t shots);
  // The first ones of this subject. Fewer than asked for, or no file: a UserError.
  const std::vector<ChoiceQuestion>& of(const std::string& subject);

 private:
  std::string data_, task_;
  std::vector<std::string> patterns_;
  std::vector<TaskFile> files_;
  bool header_;
  int64_t shots_;
  std::map<std::string, std::vector<ChoiceQuestion>> of_;
};

// How a task of four choices words its prompts.
//   generate:   HEADING, of each example its block (LEAD, question, choices, SHOWN_ASK) and answer with GAP between, an empty line,
//               then the block of the question that ends in ASK; without examples the latter alone
//   likelihood: RANKED_HEADING, of each example its block that ends in RANKED_ASK, a blank and the answer, an empty line; then the
//               question's
struct ChoiceWording {
  std::string task, heading, gap, lead, shown_ask, ask, ranked_heading, ranked_ask;
};
// Sets the item's prompt, and what it ranks; the examples that a user's template gives for the subject come first.
void word_choice(Item& item, const ChoiceQuestion& q, WorkedExamples& examples, const TaskOptions& o, const ChoiceWording& w);

// Items of a task whose texts cannot be cut: --shots is 0, or not given.
bool shows_examples(const std::string& task, const TaskOptions& options);
// Of likelihood tasks whose data hold no examples.
void refuse_shots(const std::string& task, const TaskOptions& options);

}  // namespace ravine
