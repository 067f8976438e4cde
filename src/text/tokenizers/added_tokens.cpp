#include "text/tokenizers/added_tokens.h"

#include "text/unicode/utf8.h"

namespace ravine {

void AddedTokens::add(AddedToken token) {
  auto [it, fresh] = by_content_.emplace(token.content, list_.size());
  if (fresh) {
    finder_.add(token.content, static_cast<int32_t>(list_.size()));
    list_.emplace_back();
  } else {
    by_id_.erase({list_[it->second].id, it->second});
  }
  by_id_.emplace(token.id, it->second);
  list_[it->second] = std::move(token);
}

const AddedToken* AddedTokens::by_id(int32_t id) const {
  auto it = by_id_.lower_bound({id, 0});
  return it == by_id_.end() || it->first != id ? nullptr : &list_[it->second];
}

const AddedToken* AddedTokens::by_content(std::string_view content) const {
  auto it = by_content_.find(std::string(content));
  return it == by_content_.end() ? nullptr : &list_[it->second];
}

std::vector<TextPart> AddedTokens::split(std::string_view text) const {
  std::vector<TextPart> parts;
  size_t from = 0;
  StringFinder::Search search(finder_, text);
  for (StringFinder::Match m{}; search.next(m);) {
    if (m.begin > from) parts.push_back({std::string(text.substr(from, m.begin - from))});
    parts.push_back({list_[static_cast<size_t>(m.value)].content, m.value});
    from = m.end;
  }
  if (from < text.size()) parts.push_back({std::string(text.substr(from))});

  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].token < 0) continue;
    const AddedToken& t = list_[parts[i].token];
    TextPart* left = i > 0 ? &parts[i - 1] : nullptr;
    TextPart* right = i + 1 < parts.size() ? &parts[i + 1] : nullptr;
    if (t.rstrip && right) right->text = strip_left(right->text);
    if (t.lstrip && left) left->text = strip_right(left->text);
    TextPart* into = nullptr;
    if (t.single_word && left && !left->text.empty() && left->text.back() != ' ') {
      left->text += t.content;
      into = left;
    } else if (t.single_word && right && !right->text.empty() && right->text.front() != ' ') {
      right->text = t.content + right->text;
      into = right;
    }
    if (into) {
      into->token = -1;
      parts[i] = {};
    }
  }
  std::erase_if(parts, [](const TextPart& p) { return p.text.empty(); });
  return parts;
}

}  // namespace ravine
