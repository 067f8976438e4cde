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

// Items of a task whose texts cannot be cut: --shots is 0, or not given.
bool shows_examples(const std::string& task, const TaskOptions& options);
// Of likelihood tasks whose data hold no examples.
void refuse_shots(const std::string& task, const TaskOptions& options);

}  // namespace ravine
