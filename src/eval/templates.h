// Texts of the generate protocol from a user: worked examples of each task, and a template for every prompt.
//
//   {"template": "{instruction}",                        the prompt for the model; {instruction} is the task's prompt
//    "gsm8k": {"few_shot": TEXT},
//    "bbh": {SUBJECT: TEXT}, "mmlu": {SUBJECT: TEXT}, "ceval": {SUBJECT: TEXT},
//    "agieval": {SUBJECT: [TEXT, text before the options, text after the options]}}
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace ravine {

// The texts of a --template file: worked examples by task and subject, and a template for every prompt.
class Templates {
 public:
  Templates() = default;  // no texts
  // Reads a --template file. If the argument contains {instruction}, it is not a path but the template for every
  // prompt.
  static Templates read(const std::string& path_or_text);
  static Templates parse(const Json& json, const std::string& path);  // UserErrors name the path and the key

  bool given() const { return !path_.empty(); }
  // True if these are the texts of a file without a template for prompts: a file of worked examples. Tasks that the
  // file lacks then have no examples. False for a template for prompts, which does not change the examples.
  bool is_of_examples() const;
  void fill(const Templates& other);  // copies the worked examples of `other` that this object lacks
  // Returns the template for prompts, with {instruction} replaced by `prompt`.
  std::string wrap(const std::string& prompt) const;
  // Returns the texts of a subject; null if there are none. agieval: worked examples, text before the options, text
  // after them; other tasks: one text of worked examples.
  const std::vector<std::string>* find(const std::string& task, const std::string& subject) const;
  // Returns the texts of a subject, as find(). Missing texts are a UserError.
  const std::vector<std::string>& get(const std::string& task, const std::string& subject) const;
  // Returns the path of the file with the texts of a subject; "" if there are no texts.
  std::string source(const std::string& task, const std::string& subject) const;

 private:
  std::string path_, outer_ = "{instruction}";
  struct Text {
    std::vector<std::string> texts;
    std::string source;
  };
  const Text* look_up(const std::string& task, const std::string& subject) const;
  std::map<std::pair<std::string, std::string>, Text> texts_;
};

}  // namespace ravine
