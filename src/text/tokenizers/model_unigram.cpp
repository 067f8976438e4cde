// Unigram: selects the pieces with the largest sum of scores (Viterbi), as SentencePiece's EncodeOptimized.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "text/tokenizers/model.h"
#include "text/tokenizers/piece_trie.h"
#include "text/unicode/unicode.h"

namespace ravine {

namespace {

constexpr double kUnknownPenalty = 10;

struct UnigramScratch final : ModelScratch {
  struct Best {
    double score = 0;
    int64_t from = -1;
    int32_t id = 0;
  };
  std::vector<Best> best;
  std::vector<std::pair<size_t, size_t>> parts;
};

class Unigram final : public TokenModel {
 public:
  explicit Unigram(const JsonView& json) : where_(json.where()) {
    json.only({"type", "unk_id", "vocab", "byte_fallback"});
    byte_fallback_ = json.flag("byte_fallback", false);
    double low = std::numeric_limits<double>::infinity();
    JsonView list = json.at("vocab");
    for (auto e : list.array()) {
      simdjson::dom::array pair;
      std::string_view text;
      double score = 0;
      if (e.get_array().get(pair) || pair.size() != 2 || pair.at(0).get_string().get(text) ||
          pair.at(1).get_double().get(score))
        list.wrong(fmt::format("entry {} must be a text and a score", scores_.size()));
      auto id = static_cast<int32_t>(scores_.size());
      if (id >= kMaxTokenId) list.wrong("it has too many entries");
      vocabulary_.add(text, id);
      if (text.size() > kLongestPiece)
        list.wrong(fmt::format("entry {} has {} bytes; a piece has at most {}", scores_.size(), text.size(), kLongestPiece));
      if (!text.empty()) trie_.add(text, id);
      scores_.push_back(score);
      low = std::min(low, score);
    }
    if (scores_.empty()) list.wrong("it must not be empty");
    vocabulary_.freeze();
    if (auto unk = json.find("unk_id")) unk_ = static_cast<int32_t>(unk->integer(0, static_cast<int64_t>(scores_.size()) - 1));
    unk_score_ = low - kUnknownPenalty;
    for (int b = 0; b < 256; ++b) byte_ids_[b] = vocabulary_.find(fmt::format("<0x{:02X}>", b));
  }
  std::string kind() const override { return "Unigram"; }
  std::unique_ptr<ModelScratch> scratch() const override { return std::make_unique<UnigramScratch>(); }

  void encode(std::string_view word, std::vector<int32_t>& ids, ModelScratch& scratch) const override {
    auto& s = static_cast<UnigramScratch&>(scratch);
    s.best.assign(word.size() + 1, {});
    for (size_t at = 0; at < word.size();) {
      double here = s.best[at].score;
      size_t next = at;
      next_char(word, next);
      bool single = false;
      auto offer = [&](size_t end, double score, int32_t id) {
        auto& best = s.best[end];
        if (best.from < 0 || score > best.score) best = {score, static_cast<int64_t>(at), id};
      };
      uint32_t node = 0;
      for (size_t end = at; end < word.size();) {
        node = trie_.step(node, static_cast<unsigned char>(word[end++]));
        if (node == 0) break;
        int32_t id = trie_.value(node);
        if (id < 0) continue;
        offer(end, scores_[static_cast<size_t>(id)] + here, id);
        single = single || end == next;
      }
      if (!single) {
        if (unk_ < 0 && (s.best[next].from < 0 || unk_score_ + here > s.best[next].score))
          throw UserError("text that the tokenizer cannot encode", where_, "a character is in no piece and there is no unk_id",
                          "use a tokenizer with an unknown token");
        offer(next, unk_score_ + here, unk_);
      }
      at = next;
    }
    // Goes backwards; adjacent unknown pieces are merged.
    s.parts.clear();
    bool unknown = false;
    for (size_t end = word.size(); end > 0;) {
      const auto& best = s.best[end];
      auto from = static_cast<size_t>(best.from);
      if (unk_ >= 0 && best.id == unk_) {
        if (unknown)
          s.parts.back().first = from;
        else
          s.parts.emplace_back(from, end);
        unknown = true;
      } else {
        s.parts.emplace_back(from, end);
        unknown = false;
      }
      end = from;
    }
    for (size_t k = s.parts.size(); k-- > 0;) add(word.substr(s.parts[k].first, s.parts[k].second - s.parts[k].first), ids);
  }

 private:
  void add(std::string_view part, std::vector<int32_t>& ids) const {
    int32_t id = vocabulary_.find(part);
    if (id >= 0) return ids.push_back(id);
    if (byte_fallback_) {
      bool all = true;
      for (char c : part) all = all && byte_ids_[static_cast<unsigned char>(c)] >= 0;
      if (all) {
        for (char c : part) ids.push_back(byte_ids_[static_cast<unsigned char>(c)]);
        return;
      }
    }
    if (unk_ < 0)
      throw UserError("text that the tokenizer cannot encode", where_, "a character is in no piece and there is no unk_id",
                      "use a tokenizer with an unknown token");
    ids.push_back(unk_);
  }

  std::string where_;
  PieceTrie trie_;
  std::vector<double> scores_;
  double unk_score_ = 0;
  int32_t unk_ = -1;
  bool byte_fallback_ = false;
  int32_t byte_ids_[256];
};

}  // namespace

std::unique_ptr<TokenModel> make_unigram(const JsonView& json) { return std::make_unique<Unigram>(json); }

}  // namespace ravine
