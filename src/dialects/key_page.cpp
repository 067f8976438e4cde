#include "dialects/key_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ravine {
namespace {

// Escapes a text for a cell of a Markdown table: `|` and `<`.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? "\\|" : c == '<' ? "&lt;" : std::string(1, c);
  return out;
}

}  // namespace

std::string key_page(const std::string& command, const std::vector<KeySection>& sections) {
  std::string out = fmt::format(
      "# Keys of `ravine {0}`\n\n"
      "Written by `ravine {0} --keys` from the tables of `src/dialects`; do not edit.\n"
      "A used key leads to an option, or to what stands there; an inert one has no effect, for the reason given; a refused one ends the "
      "command\nwith status 2. A key that is on no list is refused too. `--explain` says of a job what its keys come to.\n",
      command);
  for (const KeySection& section : sections) {
    out += fmt::format("\n## {}\n\n| key | type | status | option or reason |\n|---|---|---|---|\n", section.title);
    for (const DialectKey& row : section.rows) {
      std::string type(words_of(row.type));
      if (!row.choices.empty()) type += fmt::format(": {}", fmt::join(row.choices, ", "));
      out += fmt::format("| `{}` | {} | {} | {} |\n", cell(row.key), cell(type), name(row.status),
                         cell(row.status == KeyStatus::used ? row.option : row.reason));
    }
  }
  return out;
}

}  // namespace ravine
