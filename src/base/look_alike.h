// Characters that look like those of ASCII, or like nothing: full-width ones of a Chinese or Japanese keyboard, blanks and
// quotes of a word processor or a web page.
#pragma once
#include <string>
#include <string_view>

namespace ravine {

// The text with such characters replaced by those that were meant; those that are seen nowhere are left out.
std::string with_plain_characters(std::string_view text);

// Of the first such character: "'：' (U+FF1A) is a full-width ':'", "a blank is the no-break one (U+00A0)"; "" if there is
// none.
std::string look_alike(std::string_view text);

}  // namespace ravine
