// Returns the columns of the terminal on stdout; 80 if the terminal does not report them; nothing if stdout is no
// terminal.
#pragma once
#include <optional>

namespace ravine {

std::optional<int> terminal_columns();

}  // namespace ravine
