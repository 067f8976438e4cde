// The worked examples of a prompt: questions with answers from the dev file of each subject.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "eval/task.h"
#include "eval/tasks/multiple_choice.h"

namespace ravine {

// The worked examples of a task, by subject.
class WorkedExamples {
 public:
  // shots: number of examples of each subject. `patterns`: of the files, as in find_task_files.
  WorkedExamples(const std::string& data, const std::string& task, const std::vector<std::string>& patterns, bool header,
                 int64_t shots);
  // Returns the worked examples of a subject: the first `shots` questions of its file. Fewer questions, or no file, is
  // a UserError.
  const std::vector<ChoiceQuestion>& of(const std::string& subject);

 private:
  std::string data_, task_;
  std::vector<std::string> patterns_;
  std::vector<TaskFile> files_;
  bool header_;
  int64_t shots_;
  std::map<std::string, std::vector<ChoiceQuestion>> of_;
};

// The words of a prompt with four choices.
//   generate:   HEADING; for each example its block (LEAD, question, choices, SHOWN_ASK) and answer, with GAP between;
//               an empty line; the block of the question, which ends in ASK. Without examples only the latter.
//   likelihood: RANKED_HEADING; for each example its block, which ends in RANKED_ASK, a blank, the answer and an empty
//               line; the block of the question.
struct ChoiceWording {
  std::string task, heading, gap, lead, shown_answer_prefix, answer_prefix, ranked_heading, ranked_answer_prefix;
};
// Sets the prompt of the item, and its choices for likelihood. Examples of a user's template replace the examples of
// the data.
void word_choice(Item& item, const ChoiceQuestion& q, WorkedExamples& examples, const TaskOptions& o, const ChoiceWording& w);

// True if --shots is not set; false if it is 0. Another value is a UserError: the examples are one text, which is not
// cut.
bool shows_examples(const std::string& task, const TaskOptions& options);
// Throws a UserError if --shots is above 0: the data of this task have no examples.
void refuse_shots(const std::string& task, const TaskOptions& options);

}  // namespace ravine
