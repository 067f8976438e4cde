#include "apps/show_page.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "apps/terminal_columns.h"

namespace ravine {
namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// Returns the column for the rest of a wrapped line: the second column of a table, else the indentation.
size_t indent_of(std::string_view line) {
  const size_t own = std::min(line.find_first_not_of(' '), line.size());
  const size_t gap = line.find("  ", own);
  if (own == 0 || gap == std::string_view::npos) return own;
  return std::min(line.find_first_not_of(' ', gap), line.size());
}

std::string wrapped(std::string line, size_t columns) {
  size_t indent = indent_of(line);
  if (indent + 20 > columns) indent = 2;  // a narrow terminal has no room for two columns
  std::string out;
  while (line.size() > columns) {
    const size_t begin = std::max(line.find_first_not_of(' '), indent);
    size_t cut = line.rfind(' ', columns);
    if (cut == std::string::npos || cut <= begin) cut = line.find(' ', begin + 1);  // a long word
    if (cut == std::string::npos) break;
    out += line.substr(0, cut) + "\n";
    line = std::string(indent, ' ') + line.substr(std::min(line.find_first_not_of(' ', cut), line.size()));
  }
  return out + line;
}

}  // namespace

std::string page_on_terminal(const std::string& page, int columns, bool bold) {
  const std::vector<std::string_view> lines = lines_of(page);
  std::string out;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = lines[i];
    const bool heading = !line.empty() && line[0] != ' ' && i + 1 < lines.size() && lines[i + 1].starts_with("  ");
    if (bold && heading) out += "\033[1m";
    out += wrapped(std::string(line), static_cast<size_t>(std::max(columns, 20)));
    if (bold && heading) out += "\033[0m";
    out += '\n';
  }
  return out;
}

void show_page(const std::string& page) {
  const std::optional<int> columns = terminal_columns();
  if (!columns) {
    std::fwrite(page.data(), 1, page.size(), stdout);
    return;
  }
  const char* terminal = std::getenv("TERM");
  const bool plain = !terminal || std::string_view(terminal) == "dumb";
  const std::string text = page_on_terminal(page, *columns, !plain);
  winsize size{};
  const bool fits = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 ||
                    std::count(text.begin(), text.end(), '\n') < size.ws_row;
  if (!fits && !plain && ::isatty(STDIN_FILENO)) {
    const char* pager = std::getenv("PAGER");
    std::signal(SIGPIPE, SIG_IGN);  // the user may leave the pager before the end
    if (std::FILE* to = ::popen(pager && *pager ? pager : "less -FRX 2> /dev/null || cat", "w")) {
      std::fwrite(text.data(), 1, text.size(), to);
      // Else the pager does not exist.
      if (const int status = ::pclose(to); !WIFEXITED(status) || WEXITSTATUS(status) != 127) return;
    }
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace ravine
