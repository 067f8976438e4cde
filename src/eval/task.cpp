#include "eval/task.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/text.h"
#include "eval/answers.h"

namespace ravine {

const std::vector<Task>& all_tasks() {
  static const std::vector<Task> tasks = {
      {.name = "mmlu",
       .load = load_mmlu,
       .parse = parse_mmlu,
       .generates = true,
       .ranks = true,
       .new_tokens = 1,
       .subjects = true},
      {.name = "gsm8k", .load = load_gsm8k, .parse = parse_gsm8k, .generates = true, .new_tokens = 200},
      {.name = "boolq",
       .load = load_boolq,
       .parse = parse_boolq,
       .generates = true,
       .ranks = true,
       .new_tokens = 1,
       .first_token = true},
      {.name = "ceval",
       .load = load_ceval,
       .parse = parse_ceval,
       .generates = true,
       .ranks = true,
       .new_tokens = 1,
       .subjects = true,
       .normalised = true},
      {.name = "bbh", .load = load_bbh, .parse = parse_bbh, .generates = true, .new_tokens = 32, .subjects = true},
      {.name = "agieval",
       .load = load_agieval,
       .parse = parse_agieval,
       .generates = true,
       .ranks = true,
       .new_tokens = 5,
       .subjects = true,
       .normalised = true},
      {.name = "human_eval", .load = load_human_eval, .generates = true, .new_tokens = 200},
      {.name = "piqa", .load = load_piqa, .ranks = true, .normalised = true},
      {.name = "hellaswag", .load = load_hellaswag, .ranks = true, .normalised = true},
  };
  return tasks;
}

const Task& find_task(const std::string& name, Protocol protocol) {
  std::vector<std::string> names;
  for (const Task& t : all_tasks()) {
    names.push_back(t.name);
    if (t.name != name) continue;
    const bool has = protocol == Protocol::generate ? t.generates : t.ranks;
    if (has) return t;
    if (protocol == Protocol::likelihood)
      throw UserError(fmt::format("{} has no choices", name), "--protocol likelihood", "it asks for a text",
                      "evaluate it with --protocol generate");
    throw UserError(fmt::format("{} has no prompts of ModelLink", name), "--protocol generate", "its choices are compared",
                    "evaluate it with --protocol likelihood");
  }
  const std::string near = nearest(name, names);
  throw UserError(fmt::format("no task is called '{}'", escaped(name)), "--tasks",
                  fmt::format("tasks are {}", fmt::join(names, ", ")),
                  near.empty() ? "name one of them" : fmt::format("did you mean {}?", near));
}

}  // namespace ravine
