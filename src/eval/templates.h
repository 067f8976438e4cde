// Texts of the generate protocol that a user gives: worked examples of each task, and what stands around every prompt.
//
//   {"template": "{instruction}",                        what is put to the model; {instruction} is the prompt
//    "gsm8k": {"few_shot": TEXT},
//    "bbh": {SUBJECT: TEXT}, "mmlu": {SUBJECT: TEXT}, "ceval": {SUBJECT: TEXT},
//    "agieval": {SUBJECT: [TEXT, between question and options, behind the options]}}
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace ravine {

class Templates {
 public:
  Templates() = default;  // none are given
  // A file; a text that holds {instruction} is itself what stands around every prompt.
  static Templates read(const std::string& path_or_text);
  static Templates parse(const Json& json, const std::string& path);  // UserErrors name the path and the key

  bool given() const { return !path_.empty(); }
  // True for a file of worked examples: a task that it lacks has none. A template alone leaves the examples as they are.
  bool is_of_examples() const;
  void fill(const Templates& other);  // takes the texts of the other that this one lacks
  std::string wrap(const std::string& prompt) const;
  const std::vector<std::string>* find(const std::string& task, const std::string& subject) const;
  // The same. None: a UserError that says where it is missing.
  const std::vector<std::string>& get(const std::string& task, const std::string& subject) const;
  std::string source(const std::string& task, const std::string& subject) const;  // the file of the text; "": there is none

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
