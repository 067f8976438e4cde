// Where the Unicode version of the Hugging Face libraries is ahead of that of Debian's.
#pragma once
#include <functional>
#include <string>
#include <string_view>

namespace ravine {

// The name that PCRE2 has for a property of Oniguruma ("Letter" -> "L", "Han" -> "sc:Han"); empty if there is none.
std::string_view pcre_property(std::string_view name);

// Code points of a property (as pcre_property names it) that PCRE2 does not have yet, as ranges for a class: "\x{..}-\x{..}".
std::string delta_ranges(std::string_view property);

// f(first, last, general category) for each stretch of code points that is newer than Unicode 14.
void each_category_delta(const std::function<void(char32_t, char32_t, std::string_view)>& f);

}  // namespace ravine
