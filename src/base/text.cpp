#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>

namespace ravine {

std::vector<std::string> split(std::string_view text, char by) {
  std::vector<std::string> parts;
  size_t from = 0;
  for (size_t at; (at = text.find(by, from)) != std::string_view::npos; from = at + 1)
    parts.emplace_back(text.substr(from, at - from));
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
  constexpr size_t kLongest = 200;  // longer words are no typing errors, and the table below is quadratic
  if (word.size() > kLongest) return best;
  for (const auto& c : candidates) {
    if (std::max(word.size(), c.size()) - std::min(word.size(), c.size()) >= best_distance) continue;
    std::vector<std::vector<size_t>> d(word.size() + 1, std::vector<size_t>(c.size() + 1));
    for (size_t i = 0; i <= word.size(); ++i) d[i][0] = i;
    for (size_t j = 0; j <= c.size(); ++j) d[0][j] = j;
    for (size_t i = 1; i <= word.size(); ++i)
      for (size_t j = 1; j <= c.size(); ++j) {
        d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (word[i - 1] != c[j - 1])});
        if (i > 1 && j > 1 && word[i - 1] == c[j - 2] && word[i - 2] == c[j - 1])
          d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
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
    if ((c == 0xe0 && tail(1) < 0xa0) || (c == 0xed && tail(1) > 0x9f) || (c == 0xf0 && tail(1) < 0x90) ||
        (c == 0xf4 && tail(1) > 0x8f))
      return i;
    i += n;
  }
  return std::string_view::npos;
}

std::string escaped(std::string_view text, std::string_view keep) {
  std::string out;
  for (size_t valid = 0, i = 0; i < text.size();) {
    if (i >= valid) {  // finds the end of the next run of valid UTF-8
      const size_t bad = find_invalid_utf8(text.substr(i));
      valid = bad == std::string_view::npos ? text.size() : i + bad;
      if (valid == i) {
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i++]));
        continue;
      }
    }
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t n = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    uint32_t c = lead & (n == 1 ? 0x7fu : 0xffu >> (n + 1));
    for (size_t k = 1; k < n; ++k) c = c << 6 | (static_cast<unsigned char>(text[i + k]) & 0x3fu);
    const bool control = c < 0x20 || (c >= 0x7f && c < 0xa0),
               turns = (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
    if (n == 1 && keep.find(text[i]) != std::string_view::npos)
      out += text[i];
    else if (c == '\n' || c == '\t' || c == '\r')
      out += c == '\n' ? "\\n" : c == '\t' ? "\\t" : "\\r";
    else if (control || turns)
      out += c < 0x100 ? fmt::format("\\x{:02x}", c) : fmt::format("\\u{:04x}", c);
    else
      out += text.substr(i, n);
    i += n;
  }
  return out;
}

}  // namespace ravine
