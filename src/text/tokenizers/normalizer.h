// The `normalizer` of a tokenizer.json: changes text before it is split.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "text/tokenizers/json_view.h"
#include "text/tokenizers/regex.h"

namespace ravine {

inline constexpr size_t kNormalizedSlack = 4096;

// The normalizer of a tokenizer.json: changes text before it is split.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // True if apply() would certainly return the text unchanged; false if it may change it.
  virtual bool is_identity(std::string_view text) const = 0;
  // Returns the normalized text. at_start: set to false if the beginning of the text is removed or replaced; else
  // unchanged. A result with more than 64 bytes per byte of text, plus kNormalizedSlack, is a UserError, before it is
  // stored.
  std::string apply(std::string text, bool& at_start, RegexScratch& scratch) const {
    const size_t most = 64 * text.size() + kNormalizedSlack;
    return change(std::move(text), at_start, scratch, most);
  }
  // Does the work of apply(). most: the largest number of bytes of a text that it makes; a longer one is a UserError.
  virtual std::string change(std::string text, bool& at_start, RegexScratch& scratch, size_t most) const = 0;
};

// Reads the `normalizer` of a tokenizer.json: NFC NFD NFKC NFKD Lowercase Strip StripAccents BertNormalizer Prepend
// Replace Precompiled ByteLevel Sequence. Another type, and more than kMostParts steps, are UserErrors.
std::unique_ptr<Normalizer> read_normalizer(const JsonView& json);

}  // namespace ravine
