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

// The texts of a user.
class Templates {
 public:
  Templates() = default;  // no texts
  // Reads a file. A text with {instruction} is a template itself.
  static Templates read(const std::string& path_or_text);
  static Templates parse(const Json& json, const std::string& path);  // UserErrors name the path and the key

  bool given() const { return !path_.empty(); }
  // True for a file of worked examples: tasks that it lacks have none. A template alone does not change the examples.
  bool is_of_examples() const;
  void fill(const Templates& other);  // copies the texts that this one lacks
  std::string wrap(const std::string& prompt) const;
  const std::vector<std::string>* find(const std::string& task, const std::string& subject) const;
  // As find; a missing text is a UserError.
  const std::vector<std::string>& get(const std::string& task, const std::string& subject) const;
  std::string source(const std::string& task, const std::string& subject) const;  // file of the text; "": there is none

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
