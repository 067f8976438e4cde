// Hand-written scanners for the split patterns of published byte-level tokenizers. Each scanner gives the words of its
// regular expression, several times faster than PCRE2.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "text/unicode/unicode.h"

namespace ravine {

// The split patterns for which there is a scanner.
enum class SplitPattern {
  gpt2,    // the pattern of ByteLevel with use_regex
  llama3,  // also cl100k: digits in groups of three
  qwen2,   // as llama3, with digits one by one
};

// Returns the regular expression of a pattern.
std::string_view pattern_text(SplitPattern pattern);
// Returns the pattern that has this regular expression; empty if there is none.
std::optional<SplitPattern> known_pattern(std::string_view regex);

namespace scan {

struct Cursor {
  const CharTable& table;
  const char* end;
  // Returns the class of the character at p (p < end), and its length.
  uint8_t at(const char* p, int& length) const {
    auto c = static_cast<unsigned char>(*p);
    if (c < 0x80) [[likely]] {
      length = 1;
      return table.ascii(c);
    }
    size_t i = 0;
    char32_t v = next_char(std::string_view(p, static_cast<size_t>(end - p)), i);
    length = static_cast<int>(i);
    return table.of(v);
  }
  // Returns the position after a run of characters of a class.
  const char* run(const char* p, uint8_t of) const {
    int n = 0;
    while (p < end && (at(p, n) & of)) p += n;
    return p;
  }
  // Returns the position after a run of characters that are no letter, number or space.
  const char* run_other(const char* p) const {
    int n = 0;
    while (p < end && !(at(p, n) & (kLetter | kNumber | kSpace))) p += n;
    return p;
  }
};

// Returns the length of 's 't 'm 'd 're 've 'll at p, or 0.
inline int contraction(const char* p, const char* end, bool any_case) {
  if (end - p < 2) return 0;
  auto low = [&](char c) { return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  char a = low(p[1]);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if (end - p < 3) return 0;
  char b = low(p[2]);
  if (((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l')) return 3;
  // With any_case, U+017F is an s.
  if (any_case && p[1] == '\xC5' && p[2] == '\xBF') return 3;
  return 0;
}

// White space at p: \s+(?!\S)|\s+ leaves the last character before text to the next word.
inline const char* spaces(const Cursor& cursor, const char* p) {
  int n = 0;
  const char *last = p, *q = p;
  while (q < cursor.end && (cursor.at(q, n) & kSpace)) {
    last = q;
    q += n;
  }
  return q == cursor.end || last == p ? q : last;
}

inline const char* next_gpt2(const Cursor& cursor, const char* p) {
  if (*p == '\'')
    if (int n = contraction(p, cursor.end, false)) return p + n;
  int n = 0;
  const char* q = *p == ' ' && p + 1 < cursor.end ? p + 1 : p;
  uint8_t of = cursor.at(q, n);
  if (of & kLetter) return cursor.run(q + n, kLetter);
  if (of & kNumber) return cursor.run(q + n, kNumber);
  if (!(of & kSpace)) return cursor.run_other(q + n);
  return spaces(cursor, p);
}

template <int kDigits>
const char* next_cl100k(const Cursor& cursor, const char* p) {
  if (*p == '\'')
    if (int n = contraction(p, cursor.end, true)) return p + n;
  int n = 0, m = 0;
  uint8_t of = cursor.at(p, n);
  if (of & kLetter) return cursor.run(p + n, kLetter);
  if (of & kNumber) {
    const char* q = p + n;
    for (int k = 1; k < kDigits && q < cursor.end && (cursor.at(q, m) & kNumber); ++k) q += m;
    return q;
  }
  bool line_end = *p == '\r' || *p == '\n';
  const char* q = p + n;
  uint8_t next = q < cursor.end ? cursor.at(q, m) : static_cast<uint8_t>(kSpace);
  if (!line_end && (next & kLetter)) return cursor.run(q + m, kLetter);
  if (!(of & kSpace) || (*p == ' ' && !(next & (kLetter | kNumber | kSpace)))) {
    q = cursor.run_other(q);
    while (q < cursor.end && (*q == '\r' || *q == '\n')) ++q;
    return q;
  }
  // \s*[\r\n]+ ends after the last line end of the white space.
  const char* after = nullptr;
  for (q = p; q < cursor.end && (cursor.at(q, m) & kSpace); q += m)
    if (*q == '\r' || *q == '\n') after = q + 1;
  return after ? after : spaces(cursor, p);
}

}  // namespace scan

// Splits valid UTF-8 by a pattern: calls f(word) for each word in order. The concatenated words are the text.
template <class F>
void scan_words(SplitPattern pattern, const CharTable& table, std::string_view text, F&& f) {
  scan::Cursor cursor{table, text.data() + text.size()};
  auto each = [&](auto next) {
    for (const char* p = text.data(); p < cursor.end;) {
      const char* q = next(cursor, p);
      f(std::string_view(p, static_cast<size_t>(q - p)));
      p = q;
    }
  };
  if (pattern == SplitPattern::gpt2)
    each([](const auto& c, const char* p) { return scan::next_gpt2(c, p); });
  else if (pattern == SplitPattern::llama3)
    each([](const auto& c, const char* p) { return scan::next_cl100k<3>(c, p); });
  else
    each([](const auto& c, const char* p) { return scan::next_cl100k<1>(c, p); });
}

}  // namespace ravine
