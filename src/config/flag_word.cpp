#include "config/flag_word.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ravine {

std::string flag_word(const Option& f) {
  std::string word = f.rule.metavar;
  if (word.empty())
    word = !f.rule.choices.empty() ? fmt::format("{}", fmt::join(f.rule.choices, "|"))
           : f.is_text()           ? "TEXT"
           : f.is_list()           ? "A B .."
                                   : "N";
  if (f.rule.positional) return f.rule.metavar.empty() ? f.key : f.rule.metavar;
  return f.is_bool() ? "--" + f.key : fmt::format("--{} {}", f.key, word);
}

}  // namespace ravine
