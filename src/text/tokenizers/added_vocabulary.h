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

struct AddedEntry {
  AddedToken token;
  bool normalized = false;  // matched in normalized text, in its normalized form
  std::string form;         // the text to search for
};

// A part of a text: an added token, or other text (id -1).
struct AddedPart {
  size_t begin, end;
  int32_t id;
};

// Follows the rules of tokenizers/src/tokenizer/added_vocabulary.rs.
class AddedVocabulary {
 public:
  // Adds a token with its id in the model, or the next free id. Adding it again replaces the flags.
  void add(AddedEntry entry, const Vocabulary& model, const Normalizer* normalizer);
  void finish();  // after the last add

  // Calls f(part) for all parts of the text in order. normalized: the text is normalized and is matched with the
  // normalized strings; otherwise with the others. all_text: special tokens are ordinary text.
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
  int32_t find(std::string_view content) const {  // -1 if there is none
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
  // Applies the flags of a match: lstrip and rstrip widen it; with single_word a part of a word is not a match. False
  // if the match is rejected.
  bool settle(std::string_view text, int32_t id, bool all_text, size_t done, size_t& begin, size_t& end, Space& space) const;
  std::unordered_map<int32_t, AddedEntry> by_id_;
  std::unordered_map<std::string, int32_t> by_content_;
  std::unordered_map<std::string, bool> special_;
  StringFinder raw_, normalized_;
  std::shared_ptr<const CharTable> table_ = char_table();
  int64_t end_ = 0;
  size_t said_ = 0, formed_ = 0;  // bytes of all contents and of all forms
};

}  // namespace ravine
