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
  static Templates read(const std::string& path);
  static Templates parse(const Json& json, const std::string& path);  // UserErrors name the path and the key

  bool given() const { return !path_.empty(); }
  std::string wrap(const std::string& prompt) const;
  const std::vector<std::string>* find(const std::string& task, const std::string& subject) const;
  // The same. None: a UserError that says where it is missing.
  const std::vector<std::string>& get(const std::string& task, const std::string& subject) const;

 private:
  std::string path_, outer_ = "{instruction}";
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> texts_;
};

}  // namespace ravine
