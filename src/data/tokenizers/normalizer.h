// The `normalizer` of a tokenizer.json: what happens to text before it is cut.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "data/tokenizers/json_view.h"
#include "data/tokenizers/regex.h"

namespace ravine {

// A stretch of text on its way to the model. `at_start`: its first character comes from the first one of the user's text.
struct TextSpan {
  std::string_view text;
  bool at_start = false;
};

inline constexpr size_t kNormalizedSlack = 4096;

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Whether apply() would give the text back; may say false when it takes a closer look.
  virtual bool is_identity(std::string_view text) const = 0;
  // `at_start` is cleared when the beginning of the text is cut off. What comes to more than 64 bytes per byte of text
  // (kNormalizedSlack on top) is a UserError, before it is held.
  std::string apply(std::string text, bool& at_start, RegexScratch& scratch) const {
    const size_t most = 64 * text.size() + kNormalizedSlack;
    return change(std::move(text), at_start, scratch, most);
  }
  // A part of apply(): no text that it makes has more than `most` bytes.
  virtual std::string change(std::string text, bool& at_start, RegexScratch& scratch, size_t most) const = 0;
};

// Any of: NFC NFD NFKC NFKD Lowercase Nmt Strip StripAccents BertNormalizer Prepend Replace Precompiled ByteLevel Sequence.
// Another type is refused by name, and so are more than kMostParts.
std::unique_ptr<Normalizer> read_normalizer(const JsonView& json);

// The texts that stand for bytes in byte-level tokenizers: U+0021.. for what prints, U+0100.. for the rest (GPT-2's
// bytes_to_unicode).
struct ByteAlphabet {
  ByteAlphabet();
  char32_t of_byte[256];
  int16_t of_char[0x144];  // the byte of a character, or -1
  int byte(char32_t c) const { return c < 0x144 ? of_char[c] : -1; }
  std::string map(std::string_view bytes) const;
  // The bytes that a text stands for; false if it has another character.
  bool unmap(std::string_view text, std::string& bytes) const;
};

}  // namespace ravine
