// The bytes of single tokens in a text, for their log-probabilities and positions.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace ravine {

// Computes the bytes that single tokens contribute to a text.
class TokenBytes {
 public:
  explicit TokenBytes(const Tokenizer& tokenizer);
  const Tokenizer& tokenizer() const { return *tokenizer_; }

  // Returns the bytes that a token adds to a text, with its leading space. at_start: true if there is no text before
  // it; some tokenizers omit the space there. A byte token, or a part of a character, has its raw bytes. The
  // concatenated bytes of tokens are the text of all. An id without a token in the vocabulary has no bytes.
  std::string of(int32_t id, bool at_start) const;
  // True if answers omit the token, such as an end of text.
  bool skipped(int32_t id) const;
  // True if the text of these ids is empty, so that the next token is at the start of the text.
  bool no_text(std::span<const int32_t> ids) const;

 private:
  std::string behind(std::span<const int32_t> before, int32_t id) const;
  const Tokenizer* tokenizer_;
  std::vector<int32_t> before_;  // ids of some text
};

// Computes the position of each token of a text, in characters, from the bytes of the tokens in order.
class TokenOffsets {
 public:
  // prompt: token ids before the text. The tokenizer must outlive this object.
  TokenOffsets(const Tokenizer& tokenizer, std::span<const int32_t> prompt);

  // Appends the position of the next token in the text, in characters, to `token_offsets`. If the first byte of the
  // token is inside an incomplete character, the position of this character counts. Bytes that form no character count
  // as their U+FFFD. Some tokenizers write one U+FFFD for each byte of such a run; this is known at the end of the run,
  // and corrects the positions of the run in `token_offsets`.
  void add(int32_t id, std::string_view bytes, std::vector<int64_t>& token_offsets);
  void end(std::vector<int64_t>& token_offsets);  // ends the text

 private:
  int64_t next(std::string_view bytes);
  void hold(std::string_view bytes, int64_t offset);
  bool each_is_one(int64_t characters, std::vector<int64_t>& token_offsets);
  int64_t size_;  // ids of the vocabulary
  StreamDecoder decoder_;
  int64_t characters_ = 0;
  std::string pending_;               // the beginning of a character
  int64_t held_ = 0, held_from_ = 0;  // number of tokens whose text is not certain, and the position of the first
  bool held_bytes_ = false;           // each of them is one byte
};

}  // namespace ravine
