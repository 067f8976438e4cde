#include "base/text.h"

#include <algorithm>

namespace ravine {

std::vector<std::string> split(std::string_view text, char by) {
  std::vector<std::string> parts;
  size_t from = 0;
  for (size_t at; (at = text.find(by, from)) != std::string_view::npos; from = at + 1) parts.emplace_back(text.substr(from, at - from));
  parts.emplace_back(text.substr(from));
  return parts;
}

bool glob_match(std::string_view p, std::string_view s) {
  size_t i = 0, j = 0, star = std::string_view::npos, mark = 0;
  while (j < s.size()) {
    if (i < p.size() && (p[i] == '?' || p[i] == s[j])) {
      ++i, ++j;
    } else if (i < p.size() && p[i] == '*') {
      star = i++;
      mark = j;
    } else if (star != std::string_view::npos) {
      i = star + 1;
      j = ++mark;
    } else {
      return false;
    }
  }
  while (i < p.size() && p[i] == '*') ++i;
  return i == p.size();
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  for (const auto& c : candidates) {
    std::vector<std::vector<size_t>> d(word.size() + 1, std::vector<size_t>(c.size() + 1));
    for (size_t i = 0; i <= word.size(); ++i) d[i][0] = i;
    for (size_t j = 0; j <= c.size(); ++j) d[0][j] = j;
    for (size_t i = 1; i <= word.size(); ++i)
      for (size_t j = 1; j <= c.size(); ++j) {
        d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (word[i - 1] != c[j - 1])});
        if (i > 1 && j > 1 && word[i - 1] == c[j - 2] && word[i - 2] == c[j - 1]) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    if (d[word.size()][c.size()] < best_distance) {
      best_distance = d[word.size()][c.size()];
      best = c;
    }
  }
  return best;
}

size_t find_invalid_utf8(std::string_view t) {
  for (size_t i = 0; i < t.size();) {
    unsigned char c = t[i];
    if (c < 0x80) {
      ++i;
      continue;
    }
    size_t n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    if (c < 0xc2 || c > 0xf4 || i + n > t.size()) return i;
    auto tail = [&](size_t k) { return static_cast<unsigned char>(t[i + k]); };
    for (size_t k = 1; k < n; ++k)
      if ((tail(k) & 0xc0) != 0x80) return i;
    if ((c == 0xe0 && tail(1) < 0xa0) || (c == 0xed && tail(1) > 0x9f) || (c == 0xf0 && tail(1) < 0x90) || (c == 0xf4 && tail(1) > 0x8f))
      return i;
    i += n;
  }
  return std::string_view::npos;
}

}  // namespace ravine
