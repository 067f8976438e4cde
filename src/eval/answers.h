// Return the answer in a text that a model has generated, by ModelLink's rules (tasks/evaluation/eval_impl of March
// 2024). White space on the left is ignored. "": no answer was found. Any text is accepted; time is linear in its
// length.
#pragma once
#include <string>
#include <string_view>

namespace ravine {

// Returns "T" if the text begins with yes, "F" if it begins with no, in upper or lower case; else "".
std::string parse_boolq(std::string_view output);
// Returns the last letter of A to D that is before a full stop in the first line; else the first letter of the line if
// it is one of A to D; else "".
std::string parse_mmlu(std::string_view output);
// Returns the text after "The answer is ", up to a blank or a full stop, without $ and commas; "" if there is none.
// Text from "Q:" on is ignored.
std::string parse_gsm8k(std::string_view output);
std::string parse_agieval(std::string_view output);  // returns the first line without the characters $ ( )
std::string parse_bbh(std::string_view output);      // returns the first line
std::string parse_ceval(std::string_view output);    // returns the whole text, without white space on its left

}  // namespace ravine
