#include "text/unicode/utf8.h"

namespace ravine {

int utf8_head(std::string_view s) {
  auto at = [&](size_t i) { return static_cast<unsigned char>(s[i]); };
  unsigned char c = at(0);
  if (c < 0x80) return 1;
  if (c < 0xc2 || c > 0xf4) return -1;
  int n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
  for (int k = 1; k < n; ++k) {
    if (static_cast<size_t>(k) >= s.size()) return 0;
    unsigned char low = 0x80, high = 0xbf;
    if (k == 1) {  // no overlong forms, no surrogates, nothing above U+10FFFF
      if (c == 0xe0) low = 0xa0;
      if (c == 0xed) high = 0x9f;
      if (c == 0xf0) low = 0x90;
      if (c == 0xf4) high = 0x8f;
    }
    if (at(k) < low || at(k) > high) return -1;
  }
  return n;
}

char32_t utf8_value(std::string_view s, int length) {
  char32_t c = static_cast<unsigned char>(s[0]);
  if (length == 1) return c;
  c &= 0x7fu >> length;
  for (int k = 1; k < length; ++k) c = c << 6 | (static_cast<unsigned char>(s[k]) & 0x3fu);
  return c;
}

bool is_unicode_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

std::string_view strip_left(std::string_view s) {
  while (!s.empty()) {
    int n = utf8_head(s);
    if (n <= 0 || !is_unicode_space(utf8_value(s, n))) break;
    s.remove_prefix(n);
  }
  return s;
}

std::string_view strip_right(std::string_view s) {
  while (!s.empty()) {
    size_t at = s.size() - 1;
    while (at > 0 && s.size() - at < 4 && (static_cast<unsigned char>(s[at]) & 0xc0) == 0x80) --at;
    int n = utf8_head(s.substr(at));
    if (n <= 0 || at + n != s.size() || !is_unicode_space(utf8_value(s.substr(at), n))) break;
    s.remove_suffix(n);
  }
  return s;
}

}  // namespace ravine
