// MMLU: SUBJECT_test.csv and SUBJECT_dev.csv (hendrycks/test), or one Parquet file of all subjects (cais/mmlu).
#include <algorithm>

#include "eval/python_text.h"
#include "eval/task.h"
#include "eval/tasks/worked_examples.h"

namespace ravine {
namespace {

const std::vector<std::string> kMmluTest = {"test/*_test.csv", "data/test/*_test.csv", "*_test.csv",
                                            "all/test-00000-of-00001.parquet"};
const std::vector<std::string> kMmluDev = {"dev/*_dev.csv", "data/dev/*_dev.csv", "*_dev.csv",
                                           "all/dev-00000-of-00001.parquet"};

std::string mmlu_examples(const std::vector<ChoiceQuestion>& examples, const std::string& subject) {
  std::string text = fmt::format("The following are multiple choice questions (with answers) about  {}.\n", subject);
  for (size_t i = 0; i < examples.size(); ++i)
    text += (i > 0 ? "\n" : "") + choice_block(examples[i], examples[i].question, "Answer: ") + examples[i].answer;
  return text;
}

std::string mmlu_block(const ChoiceQuestion& q) { return choice_block(q, strip(q.question), "Answer:"); }

}  // namespace

std::vector<Item> load_mmlu(const std::string& data, const TaskOptions& o) {
  const int64_t shots = o.shots.value_or(5);
  WorkedExamples examples(data, "mmlu", kMmluDev, false, shots);
  std::vector<Item> items;
  for (const TaskFile& file : find_task_files(data, "mmlu", kMmluTest)) {
    std::map<std::string, int64_t> numbers;  // items of each subject so far
    for (const ChoiceQuestion& q : read_choice_questions(file, false)) {
      const int64_t number = numbers[q.subject]++;
      if (o.limit > 0 && number >= o.limit) continue;
      Item item{.id = fmt::format("{}/{}", q.subject, number), .subject = q.subject, .answer = q.answer};
      std::string subject = q.subject;
      std::replace(subject.begin(), subject.end(), '_', ' ');
      if (o.protocol == Protocol::generate) {
        const auto* given = o.templates.find("mmlu", q.subject);
        if (shots > 0) item.prompt = (given ? given->at(0) : mmlu_examples(examples.of(q.subject), subject)) + "\n\n";
        item.prompt += choice_block(q, q.question, "Answer:");
      } else {
        item.prompt = fmt::format("The following are multiple choice questions (with answers) about {}.\n\n", subject);
        for (const ChoiceQuestion& e : examples.of(q.subject)) item.prompt += mmlu_block(e) + " " + e.answer + "\n\n";
        item.prompt += mmlu_block(q);
        rank_letters(item, q);
      }
      items.push_back(std::move(item));
    }
  }
  return items;
}

}  // namespace ravine
