// The columns of the terminal that stdout is; nothing: it is none. 80 where the terminal does not say.
#pragma once
#include <optional>

namespace ravine {

std::optional<int> terminal_columns();

}  // namespace ravine
