// AGIEval: SUBJECT.jsonl with passage, question, options, label, answer (ruixiangcui/AGIEval, data/v1).
#include <algorithm>
#include <iterator>

#include <fmt/ranges.h>

#include "base/error.h"
#include "eval/python_text.h"
#include "eval/task.h"
#include "eval/task_files.h"
#include "eval/tasks/worked_examples.h"

namespace ravine {
namespace {

// True for subjects that are asked in English. gaokao-english has English questions, but ModelLink asks them in
// Chinese.
bool is_english(const std::string& subject) {
  constexpr const char* kEnglish[] = {
      "aqua-rat", "logiqa-en", "lsat-ar", "lsat-lr", "lsat-rc", "math", "sat-en", "sat-en-without-passage", "sat-math"};
  return std::find(std::begin(kEnglish), std::end(kEnglish), subject) != std::end(kEnglish);
}

struct ExamQuestion {
  std::string passage, question, answer;
  std::vector<std::string> options, labels;
};

ExamQuestion read_exam_question(const TaskRecord& r) {
  ExamQuestion q{text_or_nothing(r.json, "passage", r.where), field<std::string>(r.json, "question", r.where), "", {}, {}};
  auto texts = [&](const char* key, std::vector<std::string>& out) {
    for (const Json& one : array_field(r.json, key, r.where)) {
      if (!one.is_string())
        throw UserError(fmt::format("'{}' holds something else than texts", key), r.where, "it is a list of texts",
                        "download the file again");
      out.push_back(one.get<std::string>());
    }
  };
  const auto options = r.json.find("options"), label = r.json.find("label");
  if (options != r.json.end() && !options->is_null()) texts("options", q.options);
  const bool labelled = label != r.json.end() && !label->is_null();
  if (labelled && label->is_array())
    texts("label", q.labels);
  else if (labelled)
    q.labels = {field<std::string>(r.json, "label", r.where)};
  q.answer =
      q.labels.empty() ? without(text_or_nothing(r.json, "answer", r.where), "$") : fmt::format("{}", fmt::join(q.labels, ","));
  if (q.answer.empty())
    throw UserError("a question without an answer", r.where, "label or answer says it", "download the file again");
  return q;
}

// Returns the "query" of the harness' datasets.
std::string exam_query(const ExamQuestion& q, bool english) {
  const char last = static_cast<char>('A' + q.options.size() - 1);
  if (english)
    return fmt::format("{}Q: {} Answer Choices: {}\nA: Among A through {}, the answer is", q.passage, q.question,
                       fmt::join(q.options, " "), last);
  return fmt::format("{}问题：{} 选项：{}\n答案：从A到{}, 我们应选择", q.passage, q.question, fmt::join(q.options, " "), last);
}

constexpr size_t kLetters = 26;

void rank_options(Item& item, const ExamQuestion& q, const std::string& where) {
  if (q.options.size() > kLetters)
    throw UserError(fmt::format("a question with {} options", q.options.size()), where, "options have the letters A to Z",
                    "leave the question out, or download the file again");
  item.choices = q.options;
  item.several = true;
  for (const std::string& label : q.labels) {
    const int64_t i = label.size() == 1 ? label[0] - 'A' : -1;
    if (i < 0 || i >= static_cast<int64_t>(q.options.size()))
      throw UserError(fmt::format("label '{}'", label.substr(0, 40)), where, "it is the letter of an option",
                      "download the file again");
    item.right.push_back(i);
  }
}

}  // namespace

std::vector<Item> load_agieval(const std::string& data, const TaskOptions& o) {
  const bool generates = o.protocol == Protocol::generate;
  if (!generates) refuse_shots("agieval", o);
  const bool examples = generates && shows_examples("agieval", o);
  std::vector<Item> items;
  for (const TaskFile& file :
       find_task_files(data, "agieval", {"*.jsonl", "data/v1/*.jsonl", "data/v1_1/*.jsonl", "test/*.jsonl"})) {
    const bool english = is_english(file.subject), english_question = english || file.subject == "gaokao-english";
    std::vector<std::string> around = {"", english ? "\nChoose from the following options:\n" : "\n从以下选项中选择:\n",
                                       english ? "\nAnswer:" : "\n答案："};
    if (examples) around = o.templates.get("agieval", file.subject);
    int64_t number = 0;
    for (const TaskRecord& r : read_task_records(file.path)) {
      if (o.limit > 0 && number >= o.limit) break;
      const ExamQuestion q = read_exam_question(r);
      Item item{.id = fmt::format("{}/{}", file.subject, number++), .subject = file.subject, .answer = q.answer};
      if (generates) {
        const std::string question = (q.passage.empty() ? "" : q.passage + "\n") + q.question;
        if (examples) item.prompt = around[0] + "   ";
        item.prompt += fmt::format("{}\n{}\n{}\n{}", question, around[1], fmt::join(q.options, "\n"), around[2]);
      } else {
        if (q.options.empty()) break;  // a subject without choices (gaokao-mathcloze, math)
        rank_options(item, q, r.where);
        item.prompt = exam_query(q, english_question);
      }
      items.push_back(std::move(item));
    }
  }
  return items;
}

}  // namespace ravine
