// MMLU: SUBJECT_test.csv and SUBJECT_dev.csv (hendrycks/test), or one Parquet file of all subjects (cais/mmlu).
#include <algorithm>

#include "eval/task.h"
#include "eval/tasks/worked_examples.h"

namespace ravine {
namespace {

const std::vector<std::string> kMmluTest = {"test/*_test.csv", "data/test/*_test.csv", "*_test.csv",
                                            "all/test-00000-of-00001.parquet"};
const std::vector<std::string> kMmluDev = {"dev/*_dev.csv", "data/dev/*_dev.csv", "*_dev.csv", "../dev/*_dev.csv",
                                           "all/dev-00000-of-00001.parquet"};

}  // namespace

std::vector<Item> load_mmlu(const std::string& data, const TaskOptions& o) {
  const int64_t shots = o.shots.value_or(5);
  WorkedExamples examples(data, "mmlu", kMmluDev, false, shots);
  std::vector<Item> items;
  for (const TaskFile& file : find_task_files(data, "mmlu", kMmluTest)) {
    std::map<std::string, int64_t> numbers;  // number of items of each subject up to here
    for (const ChoiceQuestion& q : read_choice_questions(file, false)) {
      const int64_t number = numbers[q.subject]++;
      if (o.limit > 0 && number >= o.limit) continue;
      Item item{.id = fmt::format("{}/{}", q.subject, number), .subject = q.subject, .answer = q.answer};
      std::string subject = q.subject;
      std::replace(subject.begin(), subject.end(), '_', ' ');
      word_choice(
          item, q, examples, o,
          {.task = "mmlu",
           .heading = fmt::format("The following are multiple choice questions (with answers) about  {}.\n", subject),
           .gap = "\n",
           .lead = "",
           .shown_answer_prefix = "Answer: ",
           .answer_prefix = "Answer:",
           .ranked_heading = fmt::format("The following are multiple choice questions (with answers) about {}.\n\n", subject),
           .ranked_answer_prefix = "Answer:"});
      items.push_back(std::move(item));
    }
  }
  return items;
}

}  // namespace ravine
