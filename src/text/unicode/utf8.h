// Steps through UTF-8 one character at a time.
#pragma once
#include <string_view>

namespace ravine {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD, what stands for a byte that is no text

// Looks at the first character of `s` (not empty). Returns its length in bytes (1 to 4); 0 when the bytes are a good
// beginning but more must follow; -1 when the first byte cannot begin a character that goes on like this.
int utf8_head(std::string_view s);

// The code point of the character of `length` bytes at the front of `s`, as utf8_head found it.
char32_t utf8_value(std::string_view s, int length);

// White space as Python's str.strip() sees it.
bool is_unicode_space(char32_t c);

std::string_view strip_left(std::string_view s);   // without leading white space
std::string_view strip_right(std::string_view s);  // without trailing white space

}  // namespace ravine
