#include "eval/templates.h"

#include <algorithm>

#include "base/error.h"
#include "data/handlers/packed.h"
#include "eval/python_text.h"

namespace ravine {
namespace {

constexpr std::string_view kInstruction = "{instruction}";

}  // namespace

Templates Templates::read(const std::string& path) {
  if (path.find(kInstruction) != std::string::npos) return parse({{"template", path}}, "--template");
  return parse(read_json(path), path);
}

Templates Templates::parse(const Json& json, const std::string& path) {
  if (!json.is_object())
    throw UserError("not a file of templates", path, "it holds one JSON object", "see docs/howto/evaluate.md");
  Templates t;
  t.path_ = path;
  for (const auto& [task, of] : json.items()) {
    if (task == "template") {
      t.outer_ = field<std::string>(json, task, path);
      if (t.outer_.find(kInstruction) == std::string::npos)
        throw UserError("a template without {instruction}", path + ": template", "{instruction} stands for the prompt",
                        "write it where the prompt belongs");
      continue;
    }
    if (task != "gsm8k" && task != "bbh" && task != "agieval" && task != "mmlu" && task != "ceval")
      throw UserError(fmt::format("key '{}'", task), path, "keys are template, gsm8k, bbh, agieval, mmlu and ceval",
                      "correct or remove it");
    if (!of.is_object())
      throw UserError(fmt::format("'{}' is no object", task), path, "it holds a text for each subject",
                      "see docs/howto/evaluate.md");
    for (const auto& [subject, texts] : of.items()) {
      const std::string where = fmt::format("{}: {}.{}", path, task, subject);
      Text& text = t.texts_[{task, subject}];
      text.source = path;
      std::vector<std::string>& into = text.texts;
      if (task != "agieval") {
        into = {field<std::string>(of, subject, path)};
        continue;
      }
      const bool three = texts.is_array() && texts.size() == 3 &&
                         std::all_of(texts.begin(), texts.end(), [](const Json& j) { return j.is_string(); });
      if (!three)
        throw UserError("not three texts", where,
                        "a list of the worked examples, what is between question and options, and what is behind them",
                        "see docs/howto/evaluate.md");
      into = texts.get<std::vector<std::string>>();
    }
  }
  return t;
}

bool Templates::is_of_examples() const { return given() && outer_ == kInstruction && path_ != "--template"; }

std::string Templates::wrap(const std::string& prompt) const { return replaced(outer_, kInstruction, prompt); }

void Templates::fill(const Templates& other) { texts_.insert(other.texts_.begin(), other.texts_.end()); }

const Templates::Text* Templates::look_up(const std::string& task, const std::string& subject) const {
  auto it = texts_.find({task, subject});
  // ModelLink has one text for all lengths of these two tasks.
  for (const char* shared : {"logical_deduction", "tracking_shuffled_objects"})
    if (it == texts_.end() && task == "bbh" && subject.starts_with(shared)) it = texts_.find({task, shared});
  return it == texts_.end() ? nullptr : &it->second;
}

const std::vector<std::string>* Templates::find(const std::string& task, const std::string& subject) const {
  const Text* text = look_up(task, subject);
  return text ? &text->texts : nullptr;
}

std::string Templates::source(const std::string& task, const std::string& subject) const {
  const Text* text = look_up(task, subject);
  return text ? text->source : "";
}

const std::vector<std::string>& Templates::get(const std::string& task, const std::string& subject) const {
  if (const auto* found = find(task, subject)) return *found;
  throw UserError(fmt::format("no few-shot text for {}", subject == "few_shot" ? task : task + "." + subject),
                  given() ? path_ : std::string("--template"),
                  "the generate protocol shows worked examples of this task, and there are none of this subject",
                  fmt::format("give it under \"{}\" of the file of --template, or ask without examples by --shots 0", task));
}

}  // namespace ravine
