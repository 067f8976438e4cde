#include "base/terminal.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace ravine {

bool takes_escape_codes(int fd) {
  const char* kind = std::getenv("TERM");
  return ::isatty(fd) == 1 && !(kind && std::string_view(kind) == "dumb");
}

bool shows_colour(int fd) {
  const char* none = std::getenv("NO_COLOR");
  return takes_escape_codes(fd) && !(none && *none);
}

}  // namespace ravine
