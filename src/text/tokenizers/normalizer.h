// The `normalizer` of a tokenizer.json: changes text before it is split.
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
  // True if apply() would return the text unchanged; may be false if a closer look is needed.
  virtual bool is_identity(std::string_view text) const = 0;
  // Normalizes a text. at_start: cleared if the beginning of the text is removed or
  // replaced. A result above 64 bytes per byte of
  // text, plus kNormalizedSlack, is a UserError, before it is stored.
  std::string apply(std::string text, bool& at_start, RegexScratch& scratch) const {
    const size_t most = 64 * text.size() + kNormalizedSlack;
    return change(std::move(text), at_start, scratch, most);
  }
  // A step of apply(); a text that it makes has at most `most` bytes.
  virtual std::string change(std::string text, bool& at_start, RegexScratch& scratch, size_t most) const = 0;
};

// Reads a normalizer: NFC NFD NFKC NFKD Lowercase Strip StripAccents BertNormalizer Prepend Replace Precompiled
// ByteLevel Sequence. Another type, and more than kMostParts, are UserErrors.
std::unique_ptr<Normalizer> read_normalizer(const JsonView& json);

}  // namespace ravine
