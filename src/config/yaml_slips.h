// Guesses of the intended YAML of a line with a missing colon, blank or ASCII character, for messages.
#pragma once
#include <string>
#include <string_view>
#include <utility>

namespace ravine {

// Returns "steps" and "10" for "steps:10", "steps 10", "steps=10" and "steps： 10"; two empty texts for other forms.
// Only the first word of the value is returned.
std::pair<std::string, std::string> key_and_value(std::string_view text);

// A line in which a look-alike character stands for an ASCII character of YAML's syntax, outside of quotes and
// comments.
struct LookAlikeLine {
  int number = 0;     // from 1; 0: no such line
  std::string what;   // "'：' (U+FF1A) is a full-width ':'"
  std::string meant;  // the line in ASCII characters
};
LookAlikeLine find_look_alike_line(std::string_view yaml);
// Finds the first line whose list dash has no blank after it ("-a.txt"), for files that are no YAML. number is 0 if
// there is none.
LookAlikeLine find_dash_line(std::string_view yaml);

}  // namespace ravine
