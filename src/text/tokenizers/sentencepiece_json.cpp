#include "text/tokenizers/sentencepiece_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "base/json.h"
#include "files/tokenizer_files.h"
#include "text/tokenizer.h"
#include "text/tokenizers/llama_settings.h"
#include "text/tokenizers/model.h"
#include "text/tokenizers/precompiled.h"
#include "text/tokenizers/sentencepiece_model.h"
#include "text/tokenizers/settings_file.h"

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
  std::sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
    return std::tuple(-a.score, a.left, a.right) < std::tuple(-b.score, b.left, b.right);
  });
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const Merge& x : merges)
    pairs.emplace_back(m.pieces[static_cast<size_t>(x.left)].text, m.pieces[static_cast<size_t>(x.right)].text);
  return merges_json(pairs);
}

Json text_rule(const char* type, std::string_view from, std::string_view to) {
  return {{"type", type}, {"pattern", {{"String", from}}}, {"content", to}};
}

// Returns a pattern that matches any of these texts, the longest first.
std::string any_of_texts(std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end(),
            [](const std::string& a, const std::string& b) { return a.size() != b.size() ? a.size() > b.size() : a < b; });
  std::string pattern;
  for (const std::string& s : texts) {
    pattern += pattern.empty() ? "" : "|";
    for (char c : s) {
      if (std::string_view("\\.^$|()[]{}*+?-#&~ ").find(c) != std::string_view::npos) pattern += '\\';
      pattern += c;
    }
  }
  return pattern;
}

// Strings that are always one piece: they are cut out before the words, and looked up whole.
Json symbols_rule(const SentencePieceModel& m) {
  std::vector<std::string> symbols;
  for (const SentencePiece& p : m.pieces)
    if (p.type == PieceType::user_defined) symbols.push_back(p.text);
  if (symbols.empty()) return nullptr;
  return {{"type", "Split"}, {"pattern", {{"Regex", any_of_texts(symbols)}}}, {"behavior", "Isolated"}, {"invert", false}};
}

// Puts tokens around each text: ids with their spellings.
Json around(const std::vector<std::pair<int32_t, std::string>>& before,
            const std::vector<std::pair<int32_t, std::string>>& after) {
  Json single = Json::array(), pair = Json::array(), specials = Json::object();
  auto special = [&](const std::pair<int32_t, std::string>& t, int type) {
    specials[t.second] = {{"id", t.second}, {"ids", {t.first}}, {"tokens", {t.second}}};
    return Json{{"SpecialToken", {{"id", t.second}, {"type_id", type}}}};
  };
  for (const auto& [type, name] : {std::pair{0, "A"}, {1, "B"}}) {
    Json one = Json::array();
    for (const auto& t : before) one.push_back(special(t, type));
    one.push_back({{"Sequence", {{"id", name}, {"type_id", type}}}});
    for (const auto& t : after) one.push_back(special(t, type));
    if (type == 0) single = one;
    for (const Json& x : one) pair.push_back(x);
  }
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", specials}};
}

// The rules around a SentencePiece model.
struct Surroundings {
  Json added = Json::array();
  Json prefix;  // the normalizer that puts the space mark before a text; null: none
  bool strips_prefix = true;
  std::vector<std::pair<int32_t, std::string>> before, after;
};

Json added_token(int64_t id, const std::string& content, bool special) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

std::optional<std::string> json_of(const SentencePieceModel& m, const Surroundings& s) {
  const bool bpe = m.algorithm == "bpe";
  const Json symbols = symbols_rule(m);
  if ((!bpe && m.algorithm != "unigram") || !m.escape_whitespaces || m.whitespace_as_suffix ||
      (m.has_rules && !symbols.is_null()))
    return std::nullopt;
  Json vocabulary = bpe ? Json::object() : Json::array();
  const int32_t unk = m.processor->unk_id();
  for (size_t i = 0; i < m.pieces.size(); ++i) {
    const SentencePiece& p = m.pieces[i];
    if (bpe)  // a lookup of each key would take quadratic time
      static_cast<Json::object_t::Container&>(vocabulary.get_ref<Json::object_t&>()).emplace_back(p.text, i);
    else
      vocabulary.push_back({p.text, m.processor->GetScore(static_cast<int>(i))});
  }
  std::unordered_set<std::string_view> spellings;
  for (const SentencePiece& p : m.pieces) spellings.insert(p.text);
  if (unk < 0 || spellings.size() != m.pieces.size()) return std::nullopt;  // two ids with the same spelling
  Json normalizers = Json::array();
  if (m.has_rules) normalizers.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", to_base64(m.rules)}});
  if (m.remove_extra_whitespaces) {
    normalizers.push_back({{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}});
    normalizers.push_back({{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}});
  }
  if (!s.prefix.is_null()) normalizers.push_back(s.prefix);
  normalizers.push_back(text_rule("Replace", " ", kSpaceMark));
  Json decoders = {text_rule("Replace", kSpaceMark, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (s.strips_prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  Json model = {{"type", bpe ? "BPE" : "Unigram"}};
  if (bpe) {
    model.update(Json{{"dropout", nullptr},
                      {"unk_token", m.pieces[static_cast<size_t>(unk)].text},
                      {"continuing_subword_prefix", nullptr},
                      {"end_of_word_suffix", nullptr},
                      {"fuse_unk", true},
                      {"byte_fallback", m.byte_fallback},
                      {"ignore_merges", !symbols.is_null()},
                      {"vocab", std::move(vocabulary)},
                      {"merges", merges_of(m)}});
  } else {
    if (!symbols.is_null()) return std::nullopt;  // Unigram of the library has no pieces that always win
    model.update(Json{{"unk_id", unk}, {"vocab", std::move(vocabulary)}, {"byte_fallback", m.byte_fallback}});
  }
  Json out = {{"version", "1.0"},
              {"truncation", nullptr},
              {"padding", nullptr},
              {"added_tokens", s.added},
              {"normalizer", {{"type", "Sequence"}, {"normalizers", std::move(normalizers)}}},
              {"pre_tokenizer", symbols},
              {"post_processor", s.before.empty() && s.after.empty() ? Json() : around(s.before, s.after)},
              {"decoder", {{"type", "Sequence"}, {"decoders", std::move(decoders)}}},
              {"model", std::move(model)}};
  return out.dump(-1, ' ', false);
}

Json prepend_mark() { return {{"type", "Prepend"}, {"prepend", kSpaceMark}}; }

// The rules of LlamaTokenizer. Legacy: each part between special strings is a separate text for SentencePiece, with its
// own prefix. Not legacy: the whole text has one prefix, and none if it begins with a special string. Special strings
// are then found after the normalizer, which must not change them.
std::optional<Surroundings> llama_surroundings(const SentencePieceModel& m, const LlamaSettings& settings) {
  if (settings.split_special || (!settings.legacy && (m.has_rules || m.remove_extra_whitespaces))) return std::nullopt;
  Surroundings s;
  std::vector<AddedToken> list = settings.added.list();
  if (m.algorithm != "bpe")  // otherwise text would match a control piece
    for (size_t i = 0; i < m.pieces.size(); ++i)
      if ((m.pieces[i].type == PieceType::control || m.pieces[i].type == PieceType::unknown) &&
          !settings.added.by_id(static_cast<int32_t>(i)))
        list.push_back({.content = m.pieces[i].text, .id = static_cast<int32_t>(i), .special = true});
  std::sort(list.begin(), list.end(), [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  auto next = static_cast<int64_t>(m.pieces.size());
  std::vector<std::string> texts, special;
  for (const AddedToken& t : list) {
    // In the file, ids after the vocabulary are consecutive; ids in the vocabulary are found by their spelling.
    if (t.id >= static_cast<int64_t>(m.pieces.size()) ? t.id != next++ : m.pieces[static_cast<size_t>(t.id)].text != t.content)
      return std::nullopt;
    texts.push_back(t.content);
    if (t.special) special.push_back(t.content);
    Json token = added_token(t.id, t.content, t.special);
    token["single_word"] = t.single_word, token["lstrip"] = t.lstrip, token["rstrip"] = t.rstrip,
    token["normalized"] = !settings.legacy;
    s.added.push_back(std::move(token));
  }
  if (settings.legacy && m.add_dummy_prefix)
    s.prefix = prepend_mark();
  else if (!settings.legacy && settings.add_prefix_space)
    s.prefix = {{"type", "Replace"},
                {"pattern", {{"Regex", texts.empty() ? "\\A" : fmt::format("\\A(?!{})", any_of_texts(texts))}}},
                {"content", kSpaceMark}};
  else if (!settings.legacy && !special.empty())  // without a prefix, that rule removes a space of the text itself
    s.prefix = {
        {"type", "Replace"}, {"pattern", {{"Regex", fmt::format("\\A (?=(?:{}))", any_of_texts(special))}}}, {"content", ""}};
  s.strips_prefix = settings.legacy ? m.add_dummy_prefix : settings.add_prefix_space;
  for (const auto& [wanted, key, into] :
       {std::tuple{settings.add_bos, "bos_token", &s.before}, {settings.add_eos, "eos_token", &s.after}})
    if (wanted && settings.named.contains(key))
      into->emplace_back(settings.added.by_content(settings.named.at(key))->id, settings.named.at(key));
  return s;
}

}  // namespace

std::optional<std::string> sentencepiece_json(const SentencePieceModel& m, bool bos) {
  Surroundings s;
  for (size_t i = 0; i < m.pieces.size(); ++i)
    if (m.pieces[i].type == PieceType::control || m.pieces[i].type == PieceType::unknown)
      s.added.push_back(added_token(static_cast<int64_t>(i), m.pieces[i].text, true));
  if (m.add_dummy_prefix) s.prefix = prepend_mark();
  s.strips_prefix = m.add_dummy_prefix;
  if (const int32_t id = m.processor->bos_id(); bos && id >= 0)
    s.before.emplace_back(id, m.pieces[static_cast<size_t>(id)].text);
  return json_of(m, s);
}

std::map<std::string, std::string> missing_tokenizer_files(const std::string& folder) {
  const std::string file = find_in_folder(folder, "tokenizer.model");
  if (file.empty() || !find_in_folder(folder, "tokenizer.json").empty() || !is_llama_folder(folder)) return {};
  const SentencePieceModel m = load_sentencepiece(file);
  const LlamaSettings settings =
      load_llama_settings(folder, static_cast<int64_t>(m.pieces.size()), [&](const std::string& text) {
        const int id = m.processor->PieceToId(text);
        return m.pieces[static_cast<size_t>(id)].text == text ? id : -1;
      });
  const auto rules = llama_surroundings(m, settings);
  if (!rules) return {};
  const auto json = json_of(m, *rules);
  if (!json) return {};
  std::string path;
  Json config = read_settings(folder, "tokenizer_config.json", path);
  if (config.is_null()) config = Json::object();
  Json decoder = Json::object();
  for (const Json& t : rules->added) {
    Json flags = t;
    flags.erase("id");
    decoder[std::to_string(t["id"].get<int64_t>())] = std::move(flags);
  }
  config["added_tokens_decoder"] = std::move(decoder);
  for (const auto& [key, text] : settings.named) config[key] = text;
  config["add_bos_token"] = settings.add_bos;
  config["add_eos_token"] = settings.add_eos;
  config["tokenizer_class"] = "PreTrainedTokenizerFast";  // every reader uses tokenizer.json unchanged
  if (!config.contains("clean_up_tokenization_spaces")) config["clean_up_tokenization_spaces"] = false;
  return {{"tokenizer.json", *json}, {"tokenizer_config.json", config.dump(2) + "\n"}};
}

}  // namespace ravine
