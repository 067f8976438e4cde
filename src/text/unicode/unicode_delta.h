// Characters that the Unicode version of the Hugging Face libraries has, and Debian's does not.
#pragma once
#include <functional>
#include <string>
#include <string_view>

namespace ravine {

// Returns PCRE2's name of a character property that Oniguruma calls `name` ("Letter" -> "L", "Han" -> "sc:Han"); empty
// if PCRE2 does not have it.
std::string_view pcre_property(std::string_view name);

// Returns the code points of a property (named as by pcre_property) that PCRE2 lacks, as ranges of a class:
// "\x{..}-\x{..}".
std::string delta_ranges(std::string_view property);

// Calls f(first, last, general category) for each range of code points that is newer than Unicode 14.
void each_category_delta(const std::function<void(char32_t, char32_t, std::string_view)>& f);

}  // namespace ravine
