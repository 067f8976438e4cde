#include "apps/terminal_columns.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace ravine {

std::optional<int> terminal_columns() {
  if (!::isatty(STDOUT_FILENO)) return {};
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace ravine
