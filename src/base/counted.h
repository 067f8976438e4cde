// A number with its noun, as English has it: "1 step", "2 steps", "0 batches".
#pragma once
#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>

namespace ravine {

// `one`: the noun of one, whose plural ends in s, or es behind ch, sh, s and x.
inline std::string counted(std::integral auto n, std::string_view one) {
  const bool hisses = one.ends_with("ch") || one.ends_with("sh") || one.ends_with('s') || one.ends_with('x');
  return fmt::format("{} {}{}", n, one, n == 1 ? "" : hisses ? "es" : "s");
}

}  // namespace ravine
