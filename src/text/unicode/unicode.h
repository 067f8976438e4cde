// Properties of code points, for tokenizers. The classes have the Unicode version of the Hugging Face libraries: ICU's
// data, changed by unicode_delta.cpp.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/unicode/utf8.h"

namespace ravine {

// Classes of characters, as in the regular expressions of tokenizers. One bit each; a character may have several.
enum CharClass : uint8_t {
  kLetter = 1,       // \p{L}
  kNumber = 2,       // \p{N}
  kSpace = 4,        // \s, White_Space
  kPunctuation = 8,  // ASCII punctuation or \p{P}, as in crate unicode_categories 0.1.1
  kWord = 16,        // \w of Rust's regex crate
  kNumeric = 32,     // char::is_numeric of Rust
};

// A table of the classes of all code points. of(c) returns the CharClass bits of a code point.
class CharTable {
 public:
  CharTable();
  uint8_t of(char32_t c) const { return c < 0x110000 ? pages_[page_of_[c >> 8] + (c & 0xff)] : 0; }
  uint8_t ascii(unsigned char c) const { return ascii_[c]; }  // c < 0x80

 private:
  uint8_t ascii_[128];
  uint32_t page_of_[0x1100];  // start of the page of 256 code points
  std::vector<uint8_t> pages_;
};

std::shared_ptr<const CharTable> char_table();  // shared by all holders

// Returns the code point that begins at s[at] in valid UTF-8, and moves `at` to the byte after it.
inline char32_t next_char(std::string_view s, size_t& at) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(s[i]); };
  unsigned char c = byte(at);
  if (c < 0x80) return at += 1, c;
  if (c < 0xe0) return at += 2, (c & 0x1fu) << 6 | (byte(at - 1) & 0x3fu);
  if (c < 0xf0) return at += 3, (c & 0xfu) << 12 | (byte(at - 2) & 0x3fu) << 6 | (byte(at - 1) & 0x3fu);
  return at += 4, (c & 7u) << 18 | (byte(at - 3) & 0x3fu) << 12 | (byte(at - 2) & 0x3fu) << 6 | (byte(at - 1) & 0x3fu);
}

void append_utf8(std::string& out, char32_t c);

// Returns valid UTF-8: each maximal invalid part becomes U+FFFD, as in lossy decoding of Rust and Python.
std::string lossy_utf8(std::string_view bytes);

// Appends the first character of `bytes` to `out`, or U+FFFD for an invalid part. Returns its length in `bytes`.
// Returns 0 if `bytes` is empty, or if the character is incomplete and at_end is false. at_end: no bytes follow
// `bytes`.
size_t take_utf8(std::string_view bytes, bool at_end, std::string& out);

// Appends the lower case of a single character, as Rust's char::to_lowercase.
void append_lower(std::string& out, char32_t c);

void append_upper(std::string& out, char32_t c);  // upper case, as Python's str.upper

bool is_mark(char32_t c);             // \p{M} of Unicode 9
bool is_nonspacing_mark(char32_t c);  // \p{Mn}, as in crate unicode_categories 0.1.1
bool is_other(char32_t c);            // a control, format or private use character, which BERT's clean-up removes
bool is_chinese(char32_t c);          // a character in one of the blocks around whose characters BERT puts spaces

// Returns the script of a character as a number. Hiragana and Katakana count as Han. -1 for a space.
int script_of(char32_t c);

enum class NormalForm { nfc, nfd, nfkc, nfkd };

// Unicode normal forms of Unicode 9: later characters stay unchanged.
class Normalization {
 public:
  explicit Normalization(NormalForm form);
  ~Normalization();
  // True if the text is certainly in the normal form already; false if apply() may change it.
  bool is_identity(std::string_view text) const;
  std::string apply(std::string_view text) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Returns the ends of the extended grapheme clusters of the text, in bytes.
std::vector<size_t> grapheme_ends(std::string_view text);

}  // namespace ravine
