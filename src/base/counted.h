// A number with its noun in English: "1 step", "2 steps", "0 batches".
#pragma once
#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>

namespace ravine {

// Returns `n` and the noun. `one` is the singular; the plural adds s, or es after ch, sh, s and x. In "group or tensor"
// both nouns get the plural.
inline std::string counted(std::integral auto n, std::string_view one) {
  if (const size_t at = one.find(" or "); at != std::string_view::npos && n != 1)
    return counted(n, one.substr(0, at)) + counted(n, one.substr(at + 4)).replace(0, fmt::format("{}", n).size(), " or");
  const bool hisses = one.ends_with("ch") || one.ends_with("sh") || one.ends_with('s') || one.ends_with('x');
  return fmt::format("{} {}{}", n, one, n == 1 ? "" : hisses ? "es" : "s");
}

}  // namespace ravine
