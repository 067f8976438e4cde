// Patterns and brackets of a shell's text.
#include <string_view>

#include "dialects/shell_value.h"

namespace ravine {

size_t closing_bracket(std::string_view text, size_t at, char open, char close) {
  int depth = 1;
  char quote = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\\' && quote != '\'') {
      ++at;
    } else if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == open) {
      ++depth;
    } else if (c == close && --depth == 0) {
      return at;
    }
  }
  return std::string_view::npos;
}

bool fits_shell_pattern(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, from = 0;
  const auto one = [&](size_t& at) {  // true if the character matches the next one of the pattern; moves `at` past it
    if (pattern[at] == '?') return ++at, true;
    if (const size_t close = pattern.find(']', at + 2); pattern[at] == '[' && close != std::string_view::npos) {
      size_t k = at + 1;
      const bool none = pattern[k] == '!' || pattern[k] == '^';
      bool in = false;
      for (k += none; k < close; ++k) {
        const bool range = k + 2 < close && pattern[k + 1] == '-';
        in = in || (range ? pattern[k] <= text[t] && text[t] <= pattern[k + 2] : pattern[k] == text[t]);
        if (range) k += 2;
      }
      at = close + 1;
      return in != none;
    }
    if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
    return pattern[at++] == text[t];
  };
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++, from = t;
    } else if (size_t next = p; p < pattern.size() && one(next)) {
      p = next, ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1, t = ++from;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace ravine
