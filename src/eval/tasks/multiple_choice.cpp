#include "eval/tasks/multiple_choice.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "eval/csv_rows.h"

namespace ravine {
namespace {

constexpr const char* kLetters[] = {"A", "B", "C", "D"};

void check_letter(const ChoiceQuestion& q, const std::string& where) {
  if (q.answer.empty() || (q.answer.size() == 1 && q.answer[0] >= 'A' && q.answer[0] <= 'D')) return;
  throw UserError(fmt::format("answer '{}'", escaped(q.answer.substr(0, 40))), where, "it is A, B, C or D",
                  "download the file again");
}

std::vector<ChoiceQuestion> questions_of_table(const TaskFile& file, bool header) {
  std::vector<CsvRow> rows = read_csv_rows(file.path);
  std::map<std::string, size_t> columns{{"question", 0}, {"A", 1}, {"B", 2}, {"C", 3}, {"D", 4}, {"answer", 5}};
  if (header && !rows.empty()) {
    columns.clear();
    for (size_t c = 0; c < rows[0].fields.size(); ++c) columns.emplace(rows[0].fields[c], c);
    for (const char* name : {"question", "A", "B", "C", "D"})
      if (!columns.contains(name))
        throw UserError(fmt::format("no column '{}'", name), fmt::format("{}:1", file.path),
                        "the header names question, A, B, C, D, and perhaps id and answer", "download the file again");
    rows.erase(rows.begin());
  }
  std::vector<ChoiceQuestion> out;
  for (CsvRow& row : rows) {
    const std::string where = fmt::format("{}:{}", file.path, row.line);
    if (row.fields.size() != columns.size() && (header || row.fields.size() != 6))
      throw UserError(fmt::format("{} fields", row.fields.size()), where, fmt::format("a row has {}", columns.size()),
                      "download the file again");
    auto take = [&](const char* name) { return columns.contains(name) ? row.fields[columns.at(name)] : std::string(); };
    ChoiceQuestion q{file.subject, take("id"), take("question"), take("answer"), {}};
    for (const char* letter : kLetters) q.choices.push_back(take(letter));
    check_letter(q, where);
    out.push_back(std::move(q));
  }
  return out;
}

std::vector<ChoiceQuestion> questions_of_records(const TaskFile& file) {
  std::vector<ChoiceQuestion> out;
  for (const TaskRecord& r : read_task_records(file.path)) {
    ChoiceQuestion q{file.subject, "", field<std::string>(r.json, "question", r.where), "", {}};
    if (r.json.contains("subject")) q.subject = field<std::string>(r.json, "subject", r.where);
    if (r.json.contains("id")) q.id = r.json.at("id").is_string() ? r.json.at("id").get<std::string>() : r.json.at("id").dump();
    if (r.json.contains("choices")) {
      for (const Json& c : array_field(r.json, "choices", r.where))
        if (c.is_string()) q.choices.push_back(c.get<std::string>());
    } else {
      for (const char* letter : kLetters) q.choices.push_back(field<std::string>(r.json, letter, r.where));
    }
    if (q.choices.size() != 4)
      throw UserError("not four choices", r.where, "a question has four, each a text", "download the file again");
    if (const auto answer = r.json.find("answer"); answer != r.json.end() && answer->is_number_integer()) {
      const auto n = answer->get<int64_t>();
      q.answer = n >= 0 && n < 4 ? kLetters[n] : std::to_string(n);
    } else {
      q.answer = text_or_nothing(r.json, "answer", r.where);
    }
    check_letter(q, r.where);
    out.push_back(std::move(q));
  }
  return out;
}

}  // namespace

std::vector<ChoiceQuestion> read_choice_questions(const TaskFile& file, bool header) {
  return file.path.ends_with(".parquet") ? questions_of_records(file) : questions_of_table(file, header);
}

std::string choice_block(const ChoiceQuestion& q, std::string_view question, std::string_view answer_prefix) {
  return fmt::format("{}\nA. {}\nB. {}\nC. {}\nD. {}\n{}", question, q.choices[0], q.choices[1], q.choices[2], q.choices[3],
                     answer_prefix);
}

void rank_letters(Item& item, const ChoiceQuestion& q) {
  item.choices.assign(std::begin(kLetters), std::end(kLetters));
  require(q.answer.size() == 1, "eval: '{}' has no answer", item.id);
  item.right = {q.answer[0] - 'A'};
}

const TaskFile* file_of(const std::vector<TaskFile>& others, const std::string& subject) {
  const auto it = std::find_if(others.begin(), others.end(), [&](const TaskFile& f) { return f.subject == subject; });
  return it == others.end() ? nullptr : &*it;
}

}  // namespace ravine
