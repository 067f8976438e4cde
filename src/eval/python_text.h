// Text operations of Python, for protocols that are defined by Python code. Text is UTF-8; text/unicode/utf8.h defines
// white space.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "text/unicode/utf8.h"

namespace ravine {

inline std::string_view strip(std::string_view text) { return strip_right(strip_left(text)); }  // str.strip()
int64_t count_characters(std::string_view text);                                                // len()
std::string capitalise(std::string_view text);  // str.capitalize() for ASCII; other letters stay unchanged
std::string without(std::string_view text, std::string_view characters);  // removes these ASCII characters
std::string_view first_line(std::string_view text);                       // split("\n")[0]

}  // namespace ravine
