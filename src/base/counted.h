// A number with its noun, as English has it: "1 step", "2 steps", "0 batches".
#pragma once
#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>

namespace ravine {

// `one`: the noun of one, whose plural ends in s, or es behind ch, sh, s and x. Of "group or tensor" both have it.
inline std::string counted(std::integral auto n, std::string_view one) {
  if (const size_t at = one.find(" or "); at != std::string_view::npos && n != 1)
    return counted(n, one.substr(0, at)) + counted(n, one.substr(at + 4)).replace(0, fmt::format("{}", n).size(), " or");
  const bool hisses = one.ends_with("ch") || one.ends_with("sh") || one.ends_with('s') || one.ends_with('x');
  return fmt::format("{} {}{}", n, one, n == 1 ? "" : hisses ? "es" : "s");
}

}  // namespace ravine
