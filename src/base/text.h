// String helpers.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace ravine {

// Splits the text at each `by`. Empty parts are kept.
std::vector<std::string> split(std::string_view text, char by);
bool glob_match(std::string_view pattern, std::string_view name);  // '*' matches any characters (also '.'), '?' one
// Returns the candidate with the smallest edit distance (a transposition counts as one). "" if no candidate is near:
// the distance may be max(1, word.size() / 3) at most.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);
// Returns the offset of the first byte that is not valid UTF-8, or npos.
size_t find_invalid_utf8(std::string_view text);
// Returns a text from a file so that it can be printed on a terminal: it cannot move the cursor or begin a new line.
// Control characters (except the characters in `keep`), characters that change the writing direction and bytes that are
// not UTF-8 become escapes such as \x1b and \u202e.
std::string escaped(std::string_view text, std::string_view keep = "");

}  // namespace ravine
