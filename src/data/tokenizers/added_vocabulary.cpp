#include "data/tokenizers/added_vocabulary.h"

#include <algorithm>

#include "base/error.h"

namespace ravine {

void StringFinder::add(std::string_view text, int32_t value) {
  if (text.empty()) return;
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  first_[byte(0)] = true;
  if (text.size() == 1)
    single_[byte(0)] = true;
  else
    starts_[(size_t{byte(0)} << 8 | byte(1)) / 64] |= uint64_t{1} << (byte(1) % 64);
  size_t node = 0;
  for (char ch : text) {
    auto c = static_cast<unsigned char>(ch);
    auto& children = nodes_[node].children;
    auto it = std::lower_bound(children.begin(), children.end(), std::pair{c, INT32_MIN});
    if (it != children.end() && it->first == c) {
      node = static_cast<size_t>(it->second);
    } else {
      auto fresh = static_cast<int32_t>(nodes_.size());
      children.insert(it, {c, fresh});
      nodes_.emplace_back();
      node = static_cast<size_t>(fresh);
    }
  }
  if (nodes_[node].value < 0 || value < nodes_[node].value) nodes_[node].value = value;
}

bool StringFinder::find(std::string_view text, size_t from, size_t& begin, size_t& end, int32_t& value) const {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  for (size_t i = from; i < text.size(); ++i) {
    if (!first_[byte(i)]) [[likely]]
      continue;
    if (!single_[byte(i)]) {
      if (i + 1 >= text.size()) return false;
      if (!(starts_[(size_t{byte(i)} << 8 | byte(i + 1)) / 64] >> (byte(i + 1) % 64) & 1)) continue;
    }
    size_t node = 0;
    bool found = false;
    for (size_t k = i; k < text.size(); ++k) {
      const auto& children = nodes_[node].children;
      auto it = std::lower_bound(children.begin(), children.end(), std::pair{byte(k), INT32_MIN});
      if (it == children.end() || it->first != byte(k)) break;
      node = static_cast<size_t>(it->second);
      if (nodes_[node].value >= 0) {
        found = true;
        end = k + 1;
        value = nodes_[node].value;
      }
    }
    if (found) {
      begin = i;
      return true;
    }
  }
  return false;
}

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

bool AddedVocabulary::settle(std::string_view text, int32_t id, bool all_text, size_t done, size_t& begin, size_t& end) const {
  const AddedToken& t = by_id_.at(id).token;
  if (all_text && special_.contains(t.content)) return false;
  auto before = [&](size_t at) {  // of the character that ends at `at`
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
  if (t.rstrip)
    while (end < text.size() && (kind(end) & kSpace)) next_char(text, end);
  return true;
}

}  // namespace ravine
