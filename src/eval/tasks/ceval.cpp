// CEval: val/SUBJECT_val.csv, test/SUBJECT_test.csv without answers, dev/SUBJECT_dev.csv; or Parquet files in folders
// of subjects (ceval/ceval-exam).
#include "base/error.h"
#include "eval/subjects.h"
#include "eval/task.h"
#include "eval/tasks/worked_examples.h"

namespace ravine {
namespace {

// Returns the file patterns of a split. The data folder of ModelLink's page is called test or val, whatever its
// content; --data may be that folder.
std::vector<std::string> ceval_patterns(const std::string& split) {
  return {fmt::format("{0}/*_{0}.csv", split), fmt::format("*_{}.csv", split), fmt::format("test/*_{}.csv", split),
          fmt::format("../{0}/*_{0}.csv", split), fmt::format("*/{}-00000-of-00001.parquet", split)};
}

}  // namespace

std::vector<Item> load_ceval(const std::string& data, const TaskOptions& o) {
  const int64_t shots = o.shots.value_or(5);
  if (o.protocol == Protocol::likelihood && o.split == EvalSplit::test)
    throw UserError("--split test with --protocol likelihood", "--split", "CEval's test split has no answers",
                    "evaluate it with --protocol generate, which writes the file that CEval scores");
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
      word_choice(item, q, examples, o,
                  {.task = "ceval",
                   .heading = "请从下列选择题中选择正确的选项。\n\n",
                   .gap = "\n\n",
                   .lead = "问：",
                   .shown_answer_prefix = "答：",
                   .answer_prefix = "答：",
                   .ranked_heading =
                       fmt::format("以下是中国关于{}的单项选择题，请选出其中的正确答案。\n\n", chinese_name_of(q.subject)),
                   .ranked_answer_prefix = "答案："});
      items.push_back(std::move(item));
    }
  }
  return items;
}

}  // namespace ravine
