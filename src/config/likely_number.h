// Guesses of the intended value of a wrongly written number, for the advice in errors only.
#pragma once
#include <string>
#include <vector>

#include "config/option.h"

namespace ravine {

// Returns the number as text; whole numbers without a point.
std::string number_text(double x);

std::string in_small_letters(std::string text);  // changes A to Z only

// Returns the numbers in "0.9, 0.99", "(0.9 0.99)" or "0.9;0.99"; empty unless the text has two or more numbers and no
// words.
std::vector<std::string> numbers_in(std::string text);

// Returns the number that a wrongly written value means: 1000 for "1,000", 0.5 for "0,5" and "50%", and a number with a
// unit: "4k"; "8GB" for options in MB or GB; "2m" for options in seconds. "" for other texts.
std::string plain_number(const Option& option, const std::string& given);

// Returns "[1, 2, 3]" for "1-3", if the option is a list of whole numbers; else "".
std::string likely_range(const Option& option, const std::string& given);

}  // namespace ravine
