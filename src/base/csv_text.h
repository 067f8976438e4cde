// A field of a CSV line (RFC 4180).
#pragma once
#include <string>
#include <string_view>

#include "base/text.h"

namespace ravine {

// Returns the text in double quotes, with the quotes in it doubled. Control characters are escaped (base/text.h): the
// field stays on one line and cannot control a terminal.
inline std::string csv_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : escaped(text)) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

}  // namespace ravine
