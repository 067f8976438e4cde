// The special strings that a tokenizer finds in text before its own rules apply.
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/tokenizers/string_finder.h"

namespace ravine {

struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool lstrip = false, rstrip = false;  // also matches the white space on its left or right
  bool single_word = false;             // matches only between spaces
  bool special = false;                 // removed by decode(skip_special)
  bool named = false;                   // bos, eos, unk, pad and others
};

// A part of a text: a token (index into the list), or ordinary text (token -1).
struct TextPart {
  std::string text;
  int token = -1;
};

class AddedTokens {
 public:
  // Adds a token, or replaces the token with the same content.
  void add(AddedToken token);
  const std::vector<AddedToken>& list() const { return list_; }
  const AddedToken* by_id(int32_t id) const;
  const AddedToken* by_content(std::string_view content) const;
  // Splits a text at its tokens: at the leftmost match, and among these at the longest. lstrip, rstrip and single_word
  // apply as in Transformers' PreTrainedTokenizer.tokenize. No part is empty.
  std::vector<TextPart> split(std::string_view text) const;

 private:
  std::vector<AddedToken> list_;
  std::unordered_map<std::string, size_t> by_content_;
  std::set<std::pair<int32_t, size_t>> by_id_;  // id and index
  StringFinder finder_;                         // of contents; values are indices
};

}  // namespace ravine
