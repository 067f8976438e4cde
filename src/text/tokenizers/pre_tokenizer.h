// The `pre_tokenizer` of a tokenizer.json: cuts text into the words that the model sees one by one.
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

// A stretch of text on its way to the model. `at_start`: its first character comes from the first one of the user's text.
struct TextSpan {
  std::string_view text;
  bool at_start = false;
};

// Words on their way through the steps; the texts of changed ones are kept here.
struct WordList {
  std::vector<TextSpan> words, next;
  std::deque<std::string> texts;
  void clear() {
    words.clear();
    texts.clear();
  }
};

class PreTokenizerStep {
 public:
  virtual ~PreTokenizerStep() = default;
  // Appends what the word becomes to list.next; empty words are left out by the caller's push.
  virtual void cut(const TextSpan& word, WordList& list, RegexScratch& scratch) const = 0;
};

class PreTokenizer {
 public:
  // `text` as the user's or the normalizer's; the words are left in list.words. With ends_in_bytes() they are bytes, where
  // Hugging Face has the characters that stand for bytes.
  void run(TextSpan text, WordList& list, RegexScratch& scratch) const;
  bool ends_in_bytes() const { return ends_in_bytes_; }
  // Set if the whole pre-tokenizer is one of the known patterns, for a scanner to do on its own. `prefix_space`: a space stands
  // in front of text that has none.
  std::optional<SplitPattern> pattern() const { return pattern_; }
  bool prefix_space() const { return prefix_space_; }

 private:
  friend PreTokenizer read_pre_tokenizer(const JsonView& json, bool bytes);
  std::vector<std::unique_ptr<PreTokenizerStep>> steps_;
  bool ends_in_bytes_ = false, unmap_ = false, prefix_space_ = false;
  std::optional<SplitPattern> pattern_;
  ByteAlphabet alphabet_;
};

// Any of: ByteLevel Metaspace Split Whitespace WhitespaceSplit BertPreTokenizer Punctuation Digits CharDelimiterSplit
// UnicodeScripts FixedLength Sequence. Another type is refused by name. Without one, the text is one word. `bytes`: the model
// takes words as bytes where a ByteLevel makes them.
PreTokenizer read_pre_tokenizer(const JsonView& json, bool bytes);

}  // namespace ravine
