#include "text/tokenizers/added_vocabulary.h"

#include <algorithm>

#include "base/error.h"

namespace ravine {

void AddedVocabulary::add(AddedEntry entry, const Vocabulary& model, const Normalizer* normalizer) {
  if (entry.token.content.empty()) return;
  int32_t id = find(entry.token.content);
  if (id < 0) id = model.find(entry.token.content);
  if (id < 0) {
    int64_t next = std::max(model.count(), end_);
    require(next < kMaxTokenId, "tokenizer: too many added tokens");
    id = static_cast<int32_t>(next);
  }
  entry.token.id = id;
  entry.form = entry.token.content;
  if (entry.normalized && normalizer) {
    RegexScratch scratch;
    bool at_start = true;
    entry.form = normalizer->apply(entry.form, at_start, scratch);
  }
  // Forms may be longer than the contents, but not without a limit: each is stored and searched for.
  content_bytes_ += entry.token.content.size();
  formed_ += entry.form.size();
  if (formed_ > 8 * content_bytes_ + (size_t{1} << 20))
    throw UserError("wrong tokenizer file", "added_tokens",
                    fmt::format("the normalizer makes {} bytes of tokens of {} bytes", formed_, content_bytes_),
                    "correct or replace the file");
  by_content_[entry.token.content] = id;
  if (entry.token.special) special_[entry.token.content] = true;
  end_ = std::max<int64_t>(end_, int64_t{id} + 1);
  by_id_[id] = std::move(entry);
}

void AddedVocabulary::finish() {
  raw_ = {};
  normalized_ = {};
  for (const auto& [id, e] : by_id_) (e.normalized ? normalized_ : raw_).add(e.form, id);
}

bool AddedVocabulary::is_special(std::string_view content) const { return special_.contains(std::string(content)); }

bool AddedVocabulary::settle(std::string_view text, int32_t id, bool all_text, size_t done, size_t& begin, size_t& end,
                             Space& space) const {
  const AddedToken& t = by_id_.at(id).token;
  if (all_text && special_.contains(t.content)) return false;
  auto before = [&](size_t at) {  // start of the character that ends at `at`
    do --at;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80);
    return at;
  };
  auto kind = [&](size_t at) { return table_->of(next_char(text, at)); };
  if (t.single_word) {
    if (begin > 0 && (kind(before(begin)) & kWord)) return false;
    if (end < text.size() && (kind(end) & kWord)) return false;
  }
  if (t.lstrip)
    while (begin > done && (kind(before(begin)) & kSpace)) begin = before(begin);
  if (t.rstrip) {
    if (end < space.begin || end >= space.end) {  // a run of white space is walked once, for any number of tokens in it
      space = {end, end};
      while (space.end < text.size() && (kind(space.end) & kSpace)) next_char(text, space.end);
    }
    end = space.end;
  }
  return true;
}

}  // namespace ravine
