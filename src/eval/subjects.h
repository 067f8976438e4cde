// Categories of the subjects of MMLU (hendrycks/test, categories.py) and of CEval (its subject mapping; C-Eval Hard),
// and Chinese subject names of CEval.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace ravine {

// Returns the categories to which a subject of a task belongs; empty if they are not known.
std::vector<std::string> categories_of(std::string_view task, const std::string& subject);
// Returns the Chinese name of a subject of CEval. An unknown subject is returned unchanged.
std::string chinese_name_of(const std::string& subject);

}  // namespace ravine
