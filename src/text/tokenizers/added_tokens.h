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

// A special string that is found in text before the rules of the tokenizer apply, with its id.
struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool lstrip = false, rstrip = false;  // the match includes the white space on its left, or on its right
  bool single_word = false;             // matches only between spaces
  bool special = false;                 // decode() with skip_special drops it
  bool named = false;                   // it has a role in the tokenizer: bos, eos, unk, pad and others
};

// A part of a text that AddedTokens::split() returns. token: the index of the added token in list(); -1: ordinary text.
struct TextPart {
  std::string text;
  int token = -1;
};

// The special strings of a tokenizer (Transformers' slow tokenizers), and the search for them in text.
class AddedTokens {
 public:
  // Adds a token, or replaces the token with the same content.
  void add(AddedToken token);
  const std::vector<AddedToken>& list() const { return list_; }
  const AddedToken* by_id(int32_t id) const;
  const AddedToken* by_content(std::string_view content) const;
  // Splits a text into added tokens and ordinary text between them. The leftmost match is taken first, and at one
  // position the longest. lstrip, rstrip and single_word apply as in Transformers' PreTrainedTokenizer.tokenize. No
  // part is empty.
  std::vector<TextPart> split(std::string_view text) const;

 private:
  std::vector<AddedToken> list_;
  std::unordered_map<std::string, size_t> by_content_;
  std::set<std::pair<int32_t, size_t>> by_id_;  // id and index
  StringFinder finder_;                         // of contents; values are indices
};

}  // namespace ravine
