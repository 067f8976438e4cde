// Operations on text as Python does them, for protocols that are defined by Python code. Text is UTF-8.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace ravine {

std::string_view strip_left(std::string_view text);  // str.lstrip(): all white space of Unicode
std::string_view strip(std::string_view text);
int64_t count_characters(std::string_view text);  // len()
std::string capitalise(std::string_view text);    // str.capitalize(), of ASCII; other letters stay as they are
std::string without(std::string_view text, std::string_view characters);                  // ASCII characters left out
std::string replaced(std::string_view text, std::string_view what, std::string_view by);  // str.replace()
std::string_view first_line(std::string_view text);                                       // split("\n")[0]

}  // namespace ravine
