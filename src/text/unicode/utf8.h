// Reads UTF-8 one character at a time.
#pragma once
#include <string_view>

namespace ravine {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD, replaces an invalid byte

// Reads the first character of `s` (not empty). Returns its length in bytes (1 to 4). 0: the bytes are a valid
// beginning, but more are needed. -1: the first byte cannot begin a character with these next bytes.
int utf8_head(std::string_view s);

// Returns the code point of the character of `length` bytes at the front of `s`, found by utf8_head.
char32_t utf8_value(std::string_view s, int length);

// White space as in Python's str.strip().
bool is_unicode_space(char32_t c);

std::string_view strip_left(std::string_view s);   // without leading white space
std::string_view strip_right(std::string_view s);  // without trailing white space

}  // namespace ravine
