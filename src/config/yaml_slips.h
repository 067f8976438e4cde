// What a line of YAML was meant to be where a colon, a blank or a character of ASCII is missing. For messages.
#pragma once
#include <string>
#include <string_view>
#include <utility>

namespace ravine {

// "steps" and "10" of "steps:10", "steps 10", "steps=10" and "steps： 10"; two empty texts if it is nothing of the kind. Of
// what follows only the first word counts.
std::pair<std::string, std::string> key_and_value(std::string_view text);

// A line in which a character of another keyboard stands where YAML looks for its own: outside of quotes and comments.
struct LookAlikeLine {
  int number = 0;     // from 1; 0: none
  std::string what;   // "'：' (U+FF1A) is a full-width ':'"
  std::string meant;  // the line with characters of ASCII
};
LookAlikeLine find_look_alike_line(std::string_view yaml);
// The first line whose list dash has no blank behind it ("-a.txt"), for files that are no YAML; number 0: none.
LookAlikeLine find_dash_line(std::string_view yaml);

}  // namespace ravine
