// Questions with four choices in tables, as MMLU and CEval have them.
#pragma once
#include <string>
#include <vector>

#include "eval/item.h"
#include "eval/task_files.h"

namespace ravine {

struct ChoiceQuestion {
  std::string subject, id, question, answer;  // answer: a letter; "": not said
  std::vector<std::string> choices;           // four
};

// Rows of a CSV file: without a header (MMLU) of question, four choices and answer; with one (CEval) the columns it names. Of a
// Parquet file records with question, A to D or choices, answer (a letter or a number), perhaps id and subject.
std::vector<ChoiceQuestion> read_choice_questions(const TaskFile& file, bool header);

// "QUESTION\nA. ..\nB. ..\nC. ..\nD. ..\nASK"
std::string choice_block(const ChoiceQuestion& q, std::string_view question, std::string_view ask);

// An item of the likelihood protocol: the letters are the choices. Error: the answer is no letter of a choice.
void rank_letters(Item& item, const ChoiceQuestion& q);

// Which file of `others` is of this subject; null: none.
const TaskFile* file_of(const std::vector<TaskFile>& others, const std::string& subject);

}  // namespace ravine
