#include "data/tokenizers/added_tokens.h"

#include <array>

#include "data/tokenizers/utf8.h"

namespace ravine {

void AddedTokens::add(AddedToken token) {
  for (auto& t : list_)
    if (t.content == token.content) {
      t = std::move(token);
      return;
    }
  list_.push_back(std::move(token));
}

const AddedToken* AddedTokens::by_id(int32_t id) const {
  for (const auto& t : list_)
    if (t.id == id) return &t;
  return nullptr;
}

const AddedToken* AddedTokens::by_content(std::string_view content) const {
  for (const auto& t : list_)
    if (t.content == content) return &t;
  return nullptr;
}

std::vector<TextPart> AddedTokens::split(std::string_view text) const {
  std::array<bool, 256> first{};
  for (const auto& t : list_) first[static_cast<unsigned char>(t.content[0])] = true;
  std::vector<TextPart> parts;
  size_t from = 0;
  for (size_t i = 0; i < text.size();) {
    int best = -1;
    if (first[static_cast<unsigned char>(text[i])])
      for (size_t k = 0; k < list_.size(); ++k)
        if (text.substr(i).starts_with(list_[k].content) && (best < 0 || list_[k].content.size() > list_[best].content.size()))
          best = static_cast<int>(k);
    if (best < 0) {
      ++i;
      continue;
    }
    if (i > from) parts.push_back({std::string(text.substr(from, i - from))});
    parts.push_back({list_[best].content, best});
    i += list_[best].content.size();
    from = i;
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
