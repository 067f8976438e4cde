// What somebody meant who wrote a number as no option takes it: for the advice of errors, never taken by itself.
#pragma once
#include <string>
#include <vector>

#include "config/option.h"

namespace ravine {

// As people write it: whole numbers without a point.
std::string number_text(double x);

std::string in_small_letters(std::string text);  // A to Z only

// The numbers of "0.9, 0.99", "(0.9 0.99)" or "0.9;0.99"; nothing unless it is two or more and nothing else.
std::vector<std::string> numbers_in(std::string text);

// "1,000" as 1000, "0,5" as 0.5, "50%" as 0.5, and with a unit: "4k", "8GB", "2m" of what counts MB or seconds. "" if it is
// nothing of the kind.
std::string plain_number(const Option& option, const std::string& given);

// "[1, 2, 3]" of "1-3", for a list of whole numbers; "" of anything else.
std::string range_meant(const Option& option, const std::string& given);

}  // namespace ravine
