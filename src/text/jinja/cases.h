// Upper and lower case of texts as in Python, counted in the budget.
#pragma once
#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace ravine::jinja {

std::string upper_case(std::string_view s, Budget& budget);  // str.upper
// str.lower: a capital sigma at the end of a word becomes a final one
std::string lower_case(std::string_view s, Budget& budget);
std::string capitalized(std::string_view s, Budget& budget);   // str.capitalize
std::string title_case(std::string_view s, Budget& budget);    // str.title: the first of each run of cased letters
std::string swapped_case(std::string_view s, Budget& budget);  // str.swapcase
std::string folded_case(std::string_view s, Budget& budget);   // str.casefold

}  // namespace ravine::jinja
