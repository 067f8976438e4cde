// Multiple choice questions with four choices in tables, as in MMLU and CEval.
#pragma once
#include <string>
#include <vector>

#include "eval/item.h"
#include "eval/task_files.h"

namespace ravine {

// A question with four choices.
struct ChoiceQuestion {
  std::string subject, id, question, answer;  // answer: a letter; "": unknown
  std::vector<std::string> choices;           // four
};

// Returns the questions of a file. CSV without a header (MMLU): question, four choices, answer. CSV with a header
// (CEval): the named columns. Parquet: records with question, A to D or choices, answer (a letter or a number), and
// optionally id and subject.
std::vector<ChoiceQuestion> read_choice_questions(const TaskFile& file, bool header);

// Returns "QUESTION\nA. ..\nB. ..\nC. ..\nD. ..\nASK".
std::string choice_block(const ChoiceQuestion& q, std::string_view question, std::string_view answer_prefix);

// Sets an item of the likelihood protocol: its choices are the letters. An answer that is not one of them is an Error.
void rank_letters(Item& item, const ChoiceQuestion& q);

// Returns the file of this subject in `others`; null: none.
const TaskFile* file_of(const std::vector<TaskFile>& others, const std::string& subject);

}  // namespace ravine
