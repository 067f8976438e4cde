// Small helpers on strings and paths.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace ravine {

std::vector<std::string> split(std::string_view text, char by);
bool glob_match(std::string_view pattern, std::string_view name);  // '*' any run of characters (also '.'), '?' one
// The candidate nearest in edit distance (transpositions count one) if near enough to be a slip, else "".
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);
// Offset of the first byte that is not valid UTF-8, or npos.
size_t find_invalid_utf8(std::string_view text);
// Text of a file or a name as it may reach a terminal: control characters (those in `keep` excepted), marks that turn the
// direction of writing and bytes that are not UTF-8 become \x1b or \u202e; so no file moves the cursor, and no line is two.
std::string escaped(std::string_view text, std::string_view keep = "");

}  // namespace ravine
