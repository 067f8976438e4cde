// Categories of the subjects of MMLU (hendrycks/test, categories.py) and of CEval (its subject mapping; C-Eval Hard), and the
// Chinese names of CEval's.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace ravine {

std::vector<std::string> categories_of(std::string_view task, const std::string& subject);  // none: not known
std::string chinese_name_of(const std::string& subject);  // of CEval; the subject itself where it is not known

}  // namespace ravine
