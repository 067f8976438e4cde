#include "base/error.h"

namespace ravine {

std::string with_shown_nul(std::string text) {
  for (size_t at = text.find('\0'); at != std::string::npos; at = text.find('\0', at)) text.replace(at, 1, "\\x00");
  return text;
}

}  // namespace ravine
