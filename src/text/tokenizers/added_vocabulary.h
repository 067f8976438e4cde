// The `added_tokens` of a tokenizer.json: strings that are found in text before the model encodes it.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/tokenizers/added_tokens.h"
#include "text/tokenizers/normalizer.h"
#include "text/tokenizers/string_finder.h"
#include "text/tokenizers/vocabulary.h"
#include "text/unicode/unicode.h"

namespace ravine {

// An entry of `added_tokens` in a tokenizer.json.
struct AddedEntry {
  AddedToken token;
  bool normalized = false;  // true: its normalized form is searched in normalized text; false: its content in raw text
  std::string form;         // the string to search for; AddedVocabulary::add() sets it
};

// A part [begin, end) of a text, in bytes: an added token with its id, or other text (id -1).
struct AddedPart {
  size_t begin, end;
  int32_t id;
};

// The added tokens of a tokenizer.json, and the search for them in text, by the rules of
// tokenizers/src/tokenizer/added_vocabulary.rs.
class AddedVocabulary {
 public:
  // Adds a token. Its id is the id of its content in the model's vocabulary, else the next free id. A token that is
  // added again gets the new flags. normalizer: null if there is none.
  void add(AddedEntry entry, const Vocabulary& model, const Normalizer* normalizer);
  void finish();  // called once, after the last add() and before the first split()

  // Splits a text: calls f(part) for each AddedPart in order. normalized: true if the text is normalized; entries with
  // AddedEntry::normalized are then searched, else the other entries. all_text: special tokens are ordinary text.
  template <class F>
  void split(std::string_view text, bool normalized, bool all_text, F&& f) const {
    const StringFinder& finder = normalized ? normalized_ : raw_;
    if (finder.empty()) {
      if (!text.empty()) f(AddedPart{0, text.size(), -1});
      return;
    }
    size_t done = 0;
    Space space;
    StringFinder::Search search(finder, text);  // continues after the match itself, not after its white space
    for (StringFinder::Match m{}; search.next(m);) {
      size_t begin = m.begin, end = m.end;
      if (!settle(text, m.value, all_text, done, begin, end, space)) continue;
      if (done < begin) f(AddedPart{done, begin, -1});
      f(AddedPart{begin, end, m.value});
      done = end;
    }
    if (done < text.size()) f(AddedPart{done, text.size(), -1});
  }

  const AddedEntry* by_id(int32_t id) const {
    auto it = by_id_.find(id);
    return it == by_id_.end() ? nullptr : &it->second;
  }
  int32_t find(std::string_view content) const {  // returns the id of an added token; -1 if there is none
    auto it = by_content_.find(std::string(content));
    return it == by_content_.end() ? -1 : it->second;
  }
  bool is_special(std::string_view content) const;
  int64_t end() const { return end_; }  // the highest id plus one
  const std::unordered_map<int32_t, AddedEntry>& list() const { return by_id_; }

 private:
  struct Space {
    size_t begin = 1, end = 0;  // a run of white space that was already walked
  };
  // Applies the flags of the token `id` to its match [begin, end): lstrip and rstrip widen the match. Returns false if
  // it is no match: with single_word a part of a word, or a special token with all_text.
  bool settle(std::string_view text, int32_t id, bool all_text, size_t done, size_t& begin, size_t& end, Space& space) const;
  std::unordered_map<int32_t, AddedEntry> by_id_;
  std::unordered_map<std::string, int32_t> by_content_;
  std::unordered_map<std::string, bool> special_;
  StringFinder raw_, normalized_;
  std::shared_ptr<const CharTable> table_ = char_table();
  int64_t end_ = 0;
  size_t content_bytes_ = 0, formed_ = 0;  // bytes of all contents and of all forms
};

}  // namespace ravine
