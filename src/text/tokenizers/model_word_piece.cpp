#include "base/error.h"
#include "text/tokenizers/model.h"
#include "text/tokenizers/piece_trie.h"
#include "text/unicode/unicode.h"

namespace ravine {

namespace {

class WordPiece final : public TokenModel {
 public:
  WordPiece(Vocabulary v, std::string unk, const std::string& prefix, int64_t longest, std::string where)
      : unk_(std::move(unk)), longest_(longest), where_(std::move(where)) {
    vocabulary_ = std::move(v);
    vocabulary_.each([&](std::string_view s, int32_t id) {
      if (s.size() > prefix.size() + kLongestPiece)
        throw UserError("wrong tokenizer file", where_,
                        fmt::format("the piece of id {} has {} bytes; at most {} are read", id, s.size(), kLongestPiece),
                        "correct or replace the file");
      if (!s.empty()) first_.add(s, id);
      if (s.size() > prefix.size() && s.starts_with(prefix)) inner_.add(s.substr(prefix.size()), id);
    });
  }
  std::string kind() const override { return "WordPiece"; }

  // Selects the longest piece, from left to right. If a rest is not a piece, the whole word is unknown.
  void encode(std::string_view word, std::vector<int32_t>& ids, ModelScratch&) const override {
    int64_t chars = 0;
    for (size_t at = 0; at < word.size(); ++chars) next_char(word, at);
    size_t before = ids.size();
    bool bad = chars > longest_;
    for (size_t start = 0; !bad && start < word.size();) {
      const PieceTrie& trie = start > 0 ? inner_ : first_;
      size_t end = start;
      int32_t id = -1;
      uint32_t node = 0;
      for (size_t at = start; at < word.size();) {
        node = trie.step(node, static_cast<unsigned char>(word[at++]));
        if (node == 0) break;
        // Pieces are UTF-8, so no piece ends inside a character.
        if (trie.value(node) >= 0) id = trie.value(node), end = at;
      }
      if (id < 0) {
        bad = true;
      } else {
        ids.push_back(id);
        start = end;
      }
    }
    if (!bad) return;
    ids.resize(before);
    int32_t id = vocabulary_.find(unk_);
    if (id < 0)
      throw UserError("text that the tokenizer cannot encode", where_,
                      fmt::format("the unknown token '{}' is not in the vocabulary", unk_),
                      "use a tokenizer with an unknown token");
    ids.push_back(id);
  }

 private:
  std::string unk_;
  int64_t longest_;
  std::string where_;
  PieceTrie first_, inner_;  // first_: pieces at the beginning of words; inner_: other pieces, without the prefix
};

}  // namespace

std::unique_ptr<TokenModel> make_word_piece(Vocabulary vocabulary, std::string unk_token, const std::string& prefix,
                                            int64_t longest, const std::string& where) {
  return std::make_unique<WordPiece>(std::move(vocabulary), std::move(unk_token), prefix, longest, where);
}

}  // namespace ravine
