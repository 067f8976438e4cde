// The `normalizer` of a tokenizer.json: what happens to text before it is cut.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "text/tokenizers/json_view.h"
#include "text/tokenizers/regex.h"

namespace ravine {

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

// Any of: NFC NFD NFKC NFKD Lowercase Strip StripAccents BertNormalizer Prepend Replace Precompiled ByteLevel Sequence.
// Another type is refused by name, and so are more than kMostParts.
std::unique_ptr<Normalizer> read_normalizer(const JsonView& json);

}  // namespace ravine
