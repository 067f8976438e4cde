// Operations on text as Python does them, for protocols that are defined by Python code. Text is UTF-8; white space is in
// text/unicode/utf8.h.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "text/unicode/utf8.h"

namespace ravine {

inline std::string_view strip(std::string_view text) { return strip_right(strip_left(text)); }  // str.strip()
int64_t count_characters(std::string_view text);                                                // len()
std::string capitalise(std::string_view text);  // str.capitalize(), of ASCII; other letters stay as they are
std::string without(std::string_view text, std::string_view characters);  // ASCII characters left out
std::string_view first_line(std::string_view text);                       // split("\n")[0]

}  // namespace ravine
