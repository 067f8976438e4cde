// The `added_tokens` of a tokenizer.json: strings that are found in text before the model sees it.
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
  bool normalized = false;  // matched against normalised text, in its own normalised form
  std::string form;         // what is looked for
};

// Where a text is an added token, or not (id -1).
struct AddedPart {
  size_t begin, end;
  int32_t id;
};

// Rules of tokenizers/src/tokenizer/added_vocabulary.rs.
class AddedVocabulary {
 public:
  // Gives the token the id it has in the model, or the next free one. Added again, it takes the new flags.
  void add(AddedEntry entry, const Vocabulary& model, const Normalizer* normalizer);
  void finish();  // after the last add

  // Calls f(part) for all parts of the text in order: raw text against the strings that are not normalised, or normalised text
  // against the others. `all_text`: special tokens are ordinary text.
  template <class F>
  void split(std::string_view text, bool normalized, bool all_text, F&& f) const {
    const StringFinder& finder = normalized ? normalized_ : raw_;
    if (finder.empty()) {
      if (!text.empty()) f(AddedPart{0, text.size(), -1});
      return;
    }
    size_t done = 0;
    Space space;
    StringFinder::Search search(finder, text);  // it goes on behind the match itself, not behind the white space it took
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
  int64_t end() const { return end_; }  // the highest id and one
  const std::unordered_map<int32_t, AddedEntry>& list() const { return by_id_; }

 private:
  struct Space {
    size_t begin = 1, end = 0;  // a run of white space that was walked
  };
  // Flags of a match: strips widen it, a part of a word is none. False if it does not count.
  bool settle(std::string_view text, int32_t id, bool all_text, size_t done, size_t& begin, size_t& end, Space& space) const;
  std::unordered_map<int32_t, AddedEntry> by_id_;
  std::unordered_map<std::string, int32_t> by_content_;
  std::unordered_map<std::string, bool> special_;
  StringFinder raw_, normalized_;
  std::shared_ptr<const CharTable> table_ = char_table();
  int64_t end_ = 0;
  size_t said_ = 0, formed_ = 0;  // bytes of contents and of forms so far
};

}  // namespace ravine
