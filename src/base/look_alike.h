// Characters that look like ASCII characters or are invisible: full-width characters of a Chinese or Japanese keyboard,
// blanks and quotes of a word processor or a web page.
#pragma once
#include <string>
#include <string_view>

namespace ravine {

// Returns the text with each such character replaced by the ASCII character that it looks like. Invisible ones are
// removed.
std::string with_plain_characters(std::string_view text);

// Describes the first such character of the text: "'：' (U+FF1A) is a full-width ':'", "a blank in it is the no-break
// one (U+00A0)"; "" if the text has none.
std::string look_alike(std::string_view text);

}  // namespace ravine
