// Categories of the subjects of MMLU (hendrycks/test, categories.py) and of CEval (its subject mapping; C-Eval Hard),
// and Chinese subject names of CEval.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace ravine {

std::vector<std::string> categories_of(std::string_view task, const std::string& subject);  // empty: unknown
std::string chinese_name_of(const std::string& subject);  // of CEval; an unknown subject is returned unchanged

}  // namespace ravine
