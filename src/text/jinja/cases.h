// Large and small letters of texts as Python has them, counted.
#pragma once
#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace ravine::jinja {

std::string upper_case(std::string_view s, Budget& budget);   // str.upper
std::string lower_case(std::string_view s, Budget& budget);   // str.lower: a capital sigma that ends a word becomes a final one
std::string capitalized(std::string_view s, Budget& budget);  // str.capitalize
std::string title_case(std::string_view s, Budget& budget);   // str.title: the first of each run of letters that have a case
std::string swapped_case(std::string_view s, Budget& budget);  // str.swapcase
std::string folded_case(std::string_view s, Budget& budget);   // str.casefold

}  // namespace ravine::jinja
