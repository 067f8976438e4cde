// A field of a line of CSV (RFC 4180).
#pragma once
#include <string>
#include <string_view>

#include "base/text.h"

namespace ravine {

// In quotes, those inside doubled. Control characters are escaped (base/text.h), so a line stays one, and harmless on a terminal.
inline std::string csv_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : escaped(text)) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

}  // namespace ravine
