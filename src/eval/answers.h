// Parse the answer of a model by ModelLink's rules (tasks/evaluation/eval_impl of March 2024). White space on the left
// is ignored. "": no answer was found. Any text is accepted; time is linear in its length.
#pragma once
#include <string>
#include <string_view>

namespace ravine {

std::string parse_boolq(std::string_view output);  // "T" or "F": the text begins with yes or no
// the last of A to D before a full stop in the first line, else the first letter
std::string parse_mmlu(std::string_view output);
std::string parse_gsm8k(std::string_view output);    // after "The answer is ", up to a blank or a full stop
std::string parse_agieval(std::string_view output);  // the first line without $ ( )
std::string parse_bbh(std::string_view output);      // the first line
std::string parse_ceval(std::string_view output);    // all of it

}  // namespace ravine
