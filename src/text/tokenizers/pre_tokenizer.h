// The `pre_tokenizer` of a tokenizer.json: splits text into the words that the model encodes.
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizers/byte_alphabet.h"
#include "text/tokenizers/json_view.h"
#include "text/tokenizers/regex.h"
#include "text/tokenizers/split_patterns.h"

namespace ravine {

// A part of a text that a tokenizer encodes. at_start: true if its first character comes from the first character of
// the user's text.
struct TextSpan {
  std::string_view text;
  bool at_start = false;
};

// The words of a text while a PreTokenizer splits it. texts: the memory of words that a step has changed.
struct WordList {
  std::vector<TextSpan> words, next;
  std::deque<std::string> texts;
  void clear() {
    words.clear();
    texts.clear();
  }
};

// One step of a pre-tokenizer: cuts each word of the previous step into parts.
class PreTokenizerStep {
 public:
  virtual ~PreTokenizerStep() = default;
  // Appends the parts of the word to list.next; empty parts are dropped (push() in pre_tokenizer.cpp).
  virtual void cut(const TextSpan& word, WordList& list, RegexScratch& scratch) const = 0;
};

// The pre-tokenizer of a tokenizer.json: splits text into the words that the model encodes.
class PreTokenizer {
 public:
  // Splits a text of the user or the normalizer; the words are then in list.words. With ends_in_bytes(), words are
  // bytes, where Hugging Face has the characters that represent bytes.
  void run(TextSpan text, WordList& list, RegexScratch& scratch) const;
  bool ends_in_bytes() const { return ends_in_bytes_; }
  // Returns the known pattern that does the same as the whole pre-tokenizer, so that a scanner can replace run(); empty
  // if there is none. With prefix_space(), a space is put before a text that does not begin with one.
  std::optional<SplitPattern> pattern() const { return pattern_; }
  bool prefix_space() const { return prefix_space_; }

 private:
  friend PreTokenizer read_pre_tokenizer(const JsonView& json, bool bytes);
  std::vector<std::unique_ptr<PreTokenizerStep>> steps_;
  bool ends_in_bytes_ = false, unmap_ = false, prefix_space_ = false;
  std::optional<SplitPattern> pattern_;
  ByteAlphabet alphabet_;
};

// Reads the `pre_tokenizer` of a tokenizer.json: ByteLevel Metaspace Split Whitespace WhitespaceSplit BertPreTokenizer
// Punctuation Digits CharDelimiterSplit UnicodeScripts FixedLength Sequence. Another type is a UserError. Null: the
// text is one word. bytes: true if the model expects words as bytes after a ByteLevel step.
PreTokenizer read_pre_tokenizer(const JsonView& json, bool bytes);

}  // namespace ravine
