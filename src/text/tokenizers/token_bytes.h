// Tokens one by one, as the bytes that they are in a text. What is told of single tokens (log-probabilities, places) comes from here.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace ravine {

class TokenBytes {
 public:
  explicit TokenBytes(const Tokenizer& tokenizer);
  const Tokenizer& tokenizer() const { return *tokenizer_; }

  // A token's own bytes, with the blank that its place calls for: at the start of a text some tokenizers leave it out. A byte token,
  // or a part of a character, is the bytes that it stands for. The bytes of tokens put together are the text of all. Ids that only
  // a model has are no bytes.
  std::string of(int32_t id, bool at_start) const;
  // True if answers leave the token out: an end of text, say.
  bool skipped(int32_t id) const;
  // True if nothing of these ids is text, so that the token behind them stands at the start.
  bool no_text(std::span<const int32_t> ids) const;

 private:
  std::string behind(std::span<const int32_t> before, int32_t id) const;
  const Tokenizer* tokenizer_;
  std::vector<int32_t> before_;  // ids of some text
};

// Counts the characters of a text whose tokens come one by one.
class TokenPlaces {
 public:
  // The text follows that of the prompt. The tokenizer must outlive it.
  TokenPlaces(const Tokenizer& tokenizer, std::span<const int32_t> prompt);

  // Adds the place of the next token in the text, in characters: that of the character which its first byte is of, where that is
  // not complete yet. Bytes that make no character count as their U+FFFD do; where a tokenizer makes one of each byte of a run,
  // which is known at its end, the places of the run that are in `places` are set right.
  void add(int32_t id, std::string_view bytes, std::vector<int64_t>& places);
  void end(std::vector<int64_t>& places);  // of the text

 private:
  int64_t next(std::string_view bytes);
  void hold(std::string_view bytes, int64_t place);
  bool each_is_one(int64_t characters, std::vector<int64_t>& places);
  int64_t size_;  // of the vocabulary
  StreamDecoder decoder_;
  int64_t characters_ = 0;
  std::string pending_;               // the beginning of a character
  int64_t held_ = 0, held_from_ = 0;  // tokens whose text is not certain, and the place of the first
  bool held_bytes_ = false;           // each of them is one byte
};

}  // namespace ravine
