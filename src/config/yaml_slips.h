// Guesses of the intended YAML of a line with a missing colon, blank or ASCII character, for messages.
#pragma once
#include <string>
#include <string_view>
#include <utility>

namespace ravine {

// Returns "steps" and "10" for "steps:10", "steps 10", "steps=10" and "steps： 10"; two empty texts for other forms.
// Only the first word of the value is returned.
std::pair<std::string, std::string> key_and_value(std::string_view text);

// A line of YAML in which a look-alike character stands for an ASCII character of the syntax, outside of quotes and
// comments; the result of find_look_alike_line. find_dash_line returns one for its mistake.
struct LookAlikeLine {
  int number = 0;         // from 1; 0: no such line
  std::string what;       // "'：' (U+FF1A) is a full-width ':'"
  std::string corrected;  // the line in ASCII characters
};
LookAlikeLine find_look_alike_line(std::string_view yaml);
// Returns the first line whose list dash has no blank after it ("-a.txt"), for texts that are not valid YAML. `number`
// is 0 if there is none.
LookAlikeLine find_dash_line(std::string_view yaml);

}  // namespace ravine
