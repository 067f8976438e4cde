// Tasks whose answer is a text: GSM8K, BBH and HumanEval.
#include "base/error.h"
#include "eval/task.h"
#include "eval/task_files.h"
#include "eval/tasks/worked_examples.h"
#include "files/compressed.h"

namespace ravine {

namespace {

// Returns the text after "#### "; for an answer that is a list of one text (ModelLink's files), this text.
std::string number_of_solution(const TaskRecord& r) {
  const auto answer = r.json.find("answer");
  if (answer != r.json.end() && answer->is_array() && answer->size() == 1 && answer->at(0).is_string())
    return answer->at(0).get<std::string>();
  const auto solution = field<std::string>(r.json, "answer", r.where);
  constexpr std::string_view kMark = "#### ";
  const size_t at = solution.rfind(kMark);
  if (at == std::string::npos)
    throw UserError("an answer without '#### '", r.where, "the number stands behind it", "download the file again");
  return solution.substr(at + kMark.size());
}

}  // namespace

// Reads lines with question and answer; the last line of an answer is "#### " and the number
// (openai/grade-school-math).
std::vector<Item> load_gsm8k(const std::string& data, const TaskOptions& o) {
  const std::string before = shows_examples("gsm8k", o) ? o.templates.get("gsm8k", "few_shot").at(0) + "\n\n" : "";
  std::vector<Item> items;
  for (const TaskFile& file : find_task_files(data, "gsm8k",
                                              {"test.jsonl", "gsm8k_test.jsonl", "main/test-00000-of-00001.parquet",
                                               "test/*.jsonl", "test/*.json", "*.jsonl", "*.json"})) {
    int64_t number = 0;
    for (const TaskRecord& r : read_task_records(file.path)) {
      if (o.limit > 0 && number >= o.limit) break;
      items.push_back({.id = fmt::format("{}/{}", file.subject, number++),
                       .subject = file.subject,
                       .prompt = before + field<std::string>(r.json, "question", r.where),
                       .answer = number_of_solution(r)});
    }
  }
  return items;
}

// Reads SUBJECT.json with "examples": objects with input and target (suzgunmirac/BIG-Bench-Hard, bbh/).
std::vector<Item> load_bbh(const std::string& data, const TaskOptions& o) {
  const bool examples = shows_examples("bbh", o);
  std::vector<Item> items;
  for (const TaskFile& file : find_task_files(data, "bbh", {"*.json", "bbh/*.json", "test/*.json"})) {
    const std::string before = examples ? o.templates.get("bbh", file.subject).at(0) : "";
    const Json json = parse_json(read_whole(file.path, int64_t{64} << 20), file.path);
    int64_t number = 0;
    for (const Json& e : array_field(json, "examples", file.path)) {
      if (o.limit > 0 && number >= o.limit) break;
      const std::string where = fmt::format("{}: examples[{}]", file.path, number);
      items.push_back({.id = fmt::format("{}/{}", file.subject, number++),
                       .subject = file.subject,
                       .prompt = fmt::format("{}Q: {}\nA:", before, field<std::string>(e, "input", where)),
                       .answer = field<std::string>(e, "target", where)});
    }
  }
  return items;
}

// Reads lines with task_id, prompt, test and entry_point (openai/human-eval).
std::vector<Item> load_human_eval(const std::string& data, const TaskOptions& o) {
  if (o.shots.value_or(0) > 0) refuse_shots("human_eval", o);
  std::vector<Item> items;
  for (const TaskFile& file : find_task_files(data, "human_eval",
                                              {"HumanEval.jsonl", "human-eval-v2-*.jsonl",
                                               "openai_humaneval/test-00000-of-00001.parquet", "test/*.jsonl", "*.jsonl"})) {
    int64_t number = 0;
    for (const TaskRecord& r : read_task_records(file.path)) {
      if (o.limit > 0 && number++ >= o.limit) break;
      const auto prompt = field<std::string>(r.json, "prompt", r.where);
      items.push_back(
          {.id = field<std::string>(r.json, "task_id", r.where),
           .subject = file.subject,
           .prompt = "The definition and function description of the python function are as follows. Please complete "
                     "the implementation of the python function.\n" +
                     prompt,
           .answer = "passed",
           .code = prompt,
           .test = field<std::string>(r.json, "test", r.where),
           .entry = field<std::string>(r.json, "entry_point", r.where)});
    }
  }
  return items;
}

}  // namespace ravine
