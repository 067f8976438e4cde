// CEval: val/SUBJECT_val.csv, test/SUBJECT_test.csv without answers, dev/SUBJECT_dev.csv; or Parquet files in folders of
// subjects (ceval/ceval-exam).
#include "base/error.h"
#include "eval/python_text.h"
#include "eval/subjects.h"
#include "eval/task.h"
#include "eval/tasks/worked_examples.h"

namespace ravine {
namespace {

std::vector<std::string> ceval_patterns(const std::string& split) {
  return {fmt::format("{0}/*_{0}.csv", split), fmt::format("*_{}.csv", split),
          fmt::format("*/{}-00000-of-00001.parquet", split)};
}

std::string ceval_examples(const std::vector<ChoiceQuestion>& examples) {
  std::string text = "请从下列选择题中选择正确的选项。\n\n";
  for (size_t i = 0; i < examples.size(); ++i)
    text += (i > 0 ? "\n\n" : "") + choice_block(examples[i], "问：" + examples[i].question, "答：") + examples[i].answer;
  return text;
}

std::string ceval_block(const ChoiceQuestion& q) { return choice_block(q, strip(q.question), "答案："); }

}  // namespace

std::vector<Item> load_ceval(const std::string& data, const TaskOptions& o) {
  const int64_t shots = o.shots.value_or(5);
  if (o.protocol == Protocol::likelihood && o.split == EvalSplit::test)
    throw UserError("--split test with --protocol likelihood", "--split", "CEval's test split has no answers",
                    "answer it by --protocol generate, which writes the file that CEval scores");
  WorkedExamples examples(data, "ceval", ceval_patterns("dev"), true, shots);
  std::vector<Item> items;
  for (const TaskFile& file : find_task_files(data, "ceval", ceval_patterns(std::string(name(o.split))))) {
    int64_t number = 0;
    for (const ChoiceQuestion& q : read_choice_questions(file, true)) {
      if (o.limit > 0 && number >= o.limit) break;
      const std::string id = o.split == EvalSplit::test && !q.id.empty() ? q.id : std::to_string(number);
      ++number;
      Item item{.id = fmt::format("{}/{}", q.subject, id), .subject = q.subject};
      if (o.split == EvalSplit::val) item.answer = q.answer;
      if (o.split == EvalSplit::val && q.answer.empty())
        throw UserError(fmt::format("item {} has no answer", number), file.path, "the val split has one for each",
                        "download the file again");
      if (o.protocol == Protocol::generate) {
        const auto* given = o.templates.find("ceval", q.subject);
        if (shots > 0) item.prompt = (given ? given->at(0) : ceval_examples(examples.of(q.subject))) + "\n\n";
        item.prompt += choice_block(q, "问：" + q.question, "答：");
      } else {
        item.prompt = fmt::format("以下是中国关于{}的单项选择题，请选出其中的正确答案。\n\n", chinese_name_of(q.subject));
        for (const ChoiceQuestion& e : examples.of(q.subject)) item.prompt += ceval_block(e) + " " + e.answer + "\n\n";
        item.prompt += ceval_block(q);
        rank_letters(item, q);
      }
      items.push_back(std::move(item));
    }
  }
  return items;
}

}  // namespace ravine
