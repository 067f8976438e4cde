#include "data/tokenizers/sentencepiece_json.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "base/json.h"

namespace ravine {
namespace {

Json merges_of(const SentencePieceModel& m) {
  std::unordered_map<std::string_view, int32_t> id;
  for (size_t i = 0; i < m.pieces.size(); ++i)
    if (m.pieces[i].type == PieceType::normal) id.emplace(m.pieces[i].text, static_cast<int32_t>(i));
  struct Merge {
    float score;
    int32_t left, right;
  };
  std::vector<Merge> merges;
  for (const auto& [text, made] : id)
    for (size_t cut = 1; cut < text.size(); ++cut) {
      if ((static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80) continue;
      auto left = id.find(text.substr(0, cut)), right = id.find(text.substr(cut));
      if (left != id.end() && right != id.end()) merges.push_back({m.processor->GetScore(made), left->second, right->second});
    }
  std::sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) { return std::tuple(-a.score, a.left, a.right) < std::tuple(-b.score, b.left, b.right); });
  Json out = Json::array();
  for (const Merge& x : merges) out.push_back({m.pieces[static_cast<size_t>(x.left)].text, m.pieces[static_cast<size_t>(x.right)].text});
  return out;
}

Json text_rule(const char* type, std::string_view from, std::string_view to) { return {{"type", type}, {"pattern", {{"String", from}}}, {"content", to}}; }

// Strings that are one piece wherever they stand: cut out before the words, and looked up whole.
Json symbols_rule(const SentencePieceModel& m) {
  std::vector<std::string> symbols;
  for (const SentencePiece& p : m.pieces)
    if (p.type == PieceType::user_defined) symbols.push_back(p.text);
  if (symbols.empty()) return nullptr;
  std::sort(symbols.begin(), symbols.end(), [](const std::string& a, const std::string& b) { return a.size() != b.size() ? a.size() > b.size() : a < b; });  // the longest wins
  std::string pattern;
  for (const std::string& s : symbols) {
    pattern += pattern.empty() ? "" : "|";
    for (char c : s) {
      if (std::string_view("\\.^$|()[]{}*+?-#&~ ").find(c) != std::string_view::npos) pattern += '\\';
      pattern += c;
    }
  }
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
}

}  // namespace

std::optional<std::string> sentencepiece_json(const SentencePieceModel& m, bool bos) {
  const bool bpe = m.algorithm == "bpe";
  if ((!bpe && m.algorithm != "unigram") || m.has_rules || !m.escape_whitespaces || m.whitespace_as_suffix) return std::nullopt;
  const std::string mark(kSpaceMark);
  Json added = Json::array(), vocabulary = bpe ? Json::object() : Json::array();
  int32_t unk = m.processor->unk_id(), begin = m.processor->bos_id();
  for (size_t i = 0; i < m.pieces.size(); ++i) {
    const SentencePiece& p = m.pieces[i];
    if (p.type == PieceType::control || p.type == PieceType::unknown)
      added.push_back({{"id", i}, {"content", p.text}, {"single_word", false}, {"lstrip", false}, {"rstrip", false}, {"normalized", false}, {"special", true}});
    if (bpe)  // looking each key up would cost the square of their number
      static_cast<Json::object_t::Container&>(vocabulary.get_ref<Json::object_t&>()).emplace_back(p.text, i);
    else
      vocabulary.push_back({p.text, m.processor->GetScore(static_cast<int>(i))});
  }
  std::unordered_set<std::string_view> spellings;
  for (const SentencePiece& p : m.pieces) spellings.insert(p.text);
  if (unk < 0 || spellings.size() != m.pieces.size()) return std::nullopt;  // two ids of one spelling
  Json normalizers = Json::array();
  if (m.remove_extra_whitespaces) {
    normalizers.push_back({{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}});
    normalizers.push_back({{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}});
  }
  if (m.add_dummy_prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", mark}});
  normalizers.push_back(text_rule("Replace", " ", mark));
  Json decoders = {text_rule("Replace", mark, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (m.add_dummy_prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  const Json symbols = symbols_rule(m);
  Json model = {{"type", bpe ? "BPE" : "Unigram"}};
  if (bpe) {
    model.update(Json{{"dropout", nullptr}, {"unk_token", m.pieces[static_cast<size_t>(unk)].text}, {"continuing_subword_prefix", nullptr}, {"end_of_word_suffix", nullptr}, {"fuse_unk", true},
                      {"byte_fallback", m.byte_fallback}, {"ignore_merges", !symbols.is_null()}, {"vocab", std::move(vocabulary)}, {"merges", merges_of(m)}});
  } else {
    if (!symbols.is_null()) return std::nullopt;  // Unigram there has no pieces that always win
    model.update(Json{{"unk_id", unk}, {"vocab", std::move(vocabulary)}, {"byte_fallback", m.byte_fallback}});
  }
  Json post = nullptr;
  if (bos && begin >= 0) {
    const std::string text = m.pieces[static_cast<size_t>(begin)].text;
    auto special = [&](int type) { return Json{{"SpecialToken", {{"id", text}, {"type_id", type}}}}; };
    auto sequence = [](const char* id, int type) { return Json{{"Sequence", {{"id", id}, {"type_id", type}}}}; };
    post = {{"type", "TemplateProcessing"},
            {"single", Json::array({special(0), sequence("A", 0)})},
            {"pair", Json::array({special(0), sequence("A", 0), special(1), sequence("B", 1)})},
            {"special_tokens", {{text, {{"id", text}, {"ids", {begin}}, {"tokens", {text}}}}}}};
  }
  Json out = {{"version", "1.0"},
              {"truncation", nullptr},
              {"padding", nullptr},
              {"added_tokens", std::move(added)},
              {"normalizer", {{"type", "Sequence"}, {"normalizers", std::move(normalizers)}}},
              {"pre_tokenizer", symbols},
              {"post_processor", std::move(post)},
              {"decoder", {{"type", "Sequence"}, {"decoders", std::move(decoders)}}},
              {"model", std::move(model)}};
  return out.dump(-1, ' ', false);
}

}  // namespace ravine
