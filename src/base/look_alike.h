// Characters that look like ASCII characters or are invisible: full-width characters of a Chinese or Japanese keyboard,
// blanks and quotes of a word processor or a web page.
#pragma once
#include <string>
#include <string_view>

namespace ravine {

// Returns the text with each look-alike of an ASCII character (full-width, typographic, an unusual blank) replaced by
// that ASCII character. Invisible characters are removed.
std::string with_plain_characters(std::string_view text);

// Describes the first character of the text that looks like an ASCII character or is invisible: "'：' (U+FF1A) is a
// full-width ':'", "a blank in it is the no-break one (U+00A0)". Returns "" if the text has no such character.
std::string look_alike(std::string_view text);

}  // namespace ravine
