#include "text/tokenizers/tokenizer_folder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "files/compressed.h"
#include "files/tokenizer_files.h"
#include "text/tokenizers/json_tokenizer.h"
#include "text/tokenizers/settings_file.h"

namespace ravine {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kFileLimit = int64_t{128} << 20;

[[noreturn]] void wrong_file(const std::string& file, const std::string& key, const std::string& rule) {
  throw UserError("wrong tokenizer setting", file + ": " + key, rule, "correct the file");
}

bool setting(const Json& j, const std::string& file, const char* key, bool fallback) {
  auto it = j.find(key);
  if (it == j.end() || it->is_null()) return fallback;
  if (!it->is_boolean()) wrong_file(file, key, "it must be true or false");
  return it->get<bool>();
}

AddedEntry read_entry(const Json& j, const std::string& file, const std::string& key, bool special) {
  AddedEntry e;
  e.token.special = special;
  if (j.is_string()) {
    e.token.content = j.get<std::string>();
  } else if (j.is_object() && j.contains("content") && j["content"].is_string()) {
    e.token.content = j["content"].get<std::string>();
    e.token.lstrip = setting(j, file, "lstrip", false);
    e.token.rstrip = setting(j, file, "rstrip", false);
    e.token.single_word = setting(j, file, "single_word", false);
    e.token.special = special || setting(j, file, "special", false);
    e.normalized = setting(j, file, "normalized", !e.token.special);
  } else {
    wrong_file(file, key, "a token is a string or an object with the string 'content'");
  }
  if (e.token.content.empty()) wrong_file(file, key, "a token must not be empty");
  return e;
}

bool same(const AddedEntry& a, const AddedEntry& b) {
  return a.token.content == b.token.content && a.token.lstrip == b.token.lstrip && a.token.rstrip == b.token.rstrip &&
         a.token.single_word == b.token.single_word && a.token.special == b.token.special && a.normalized == b.normalized;
}

// The settings of the folder, which take priority over the tokenizer's own file.
class Settings {
 public:
  explicit Settings(const std::string& dir) {
    config_ = read_settings(dir, "tokenizer_config.json", config_path_);
    map_ = read_tokens_map(dir, config_, map_path_);
    if (!config_.contains("added_tokens_decoder")) added_ = read_settings(dir, "added_tokens.json", added_path_);
  }
  const Json& config() const { return config_; }
  const std::string& config_path() const { return config_path_; }

  void apply(TokenizerParts& p) const {
    add_listed(p);
    add_older(p);
    for (const char* key : kNamed) {  // in this order they get ids
      const std::optional<int32_t> id = named(p, key);
      if (std::string_view(key) == "bos_token") p.special.bos = id;
      if (std::string_view(key) == "eos_token") p.special.eos = id;
      if (std::string_view(key) == "pad_token") p.special.pad = id;
      if (std::string_view(key) == "unk_token") p.special.unk = id;
    }
    for (const char* key : kMore) add_more(p, key);
    p.added.finish();
    p.split_special = setting(config_, config_path_, "split_special_tokens", false);
    bool declared = config_.contains("add_bos_token") || config_.contains("add_eos_token");
    if (declared || !p.has_post_processor) {
      p.post_processor = {};
      if (setting(config_, config_path_, "add_bos_token", false) && p.special.bos) p.post_processor.before = {*p.special.bos};
      if (setting(config_, config_path_, "add_eos_token", false) && p.special.eos) p.post_processor.after = {*p.special.eos};
    }
  }

 private:
  void add(TokenizerParts& p, AddedEntry e) const { p.added.add(std::move(e), p.model->vocabulary(), p.normalizer.get()); }

  void add_listed(TokenizerParts& p) const {
    auto it = config_.find("added_tokens_decoder");
    if (it == config_.end() || it->is_null()) return;
    if (!it->is_object()) wrong_file(config_path_, "added_tokens_decoder", "it must be an object");
    std::vector<std::pair<int64_t, AddedEntry>> list;
    for (const auto& [key, value] : it->items()) {
      std::string where = "added_tokens_decoder." + key;
      int64_t id = -1;
      auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (error != std::errc{} || end != key.data() + key.size() || id < 0 || id >= kMaxTokenId)
        wrong_file(config_path_, where, fmt::format("the key must be a token id from 0 to {}", kMaxTokenId - 1));
      list.emplace_back(id, read_entry(value, config_path_, where, false));
    }
    std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& [id, e] : list) {
      const AddedEntry* known = p.added.by_id(p.added.find(e.token.content));
      if (!known || !same(*known, e)) add(p, std::move(e));
    }
  }

  // added_tokens.json: texts and their ids; a token is special if another setting names it as special.
  void add_older(TokenizerParts& p) const {
    std::vector<std::pair<int64_t, std::string>> list;
    for (const auto& [content, id] : added_.items()) {
      if (content.empty() || !id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= kMaxTokenId)
        wrong_file(added_path_, content, fmt::format("it must map a text to a token id from 0 to {}", kMaxTokenId - 1));
      list.emplace_back(id.get<int64_t>(), content);
    }
    std::sort(list.begin(), list.end());
    for (auto& [id, content] : list) {
      if (p.added.find(content) >= 0) continue;
      AddedEntry e;
      e.token.special = is_special(content);
      e.normalized = !e.token.special;
      e.token.content = std::move(content);
      add(p, std::move(e));
    }
  }

  bool is_special(const std::string& content) const {
    auto is = [&](const Json& token) {
      return token == content || (token.is_object() && token.contains("content") && token["content"] == content);
    };
    for (const Json* from : {&config_, &map_})
      for (const auto& [key, value] : from->items()) {
        if (std::find(std::begin(kNamed), std::end(kNamed), key) != std::end(kNamed) && is(value)) return true;
        const bool more = std::find(std::begin(kMore), std::end(kMore), key) != std::end(kMore);
        if (more && value.is_structured() && std::any_of(value.begin(), value.end(), is)) return true;
      }
    return false;
  }

  static constexpr const char* kNamed[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                           "pad_token", "cls_token", "mask_token"};
  static constexpr const char* kMore[] = {"additional_special_tokens", "extra_special_tokens"};

  std::optional<int32_t> named(TokenizerParts& p, const char* key) const {
    const bool in_map = map_.contains(key);
    const Json from = in_map ? map_[key] : config_.contains(key) ? config_[key] : usual_token(config_, config_path_, key);
    if (from.is_null()) return std::nullopt;
    AddedEntry e = read_entry(from, in_map ? map_path_ : config_path_, key, true);
    std::string content = e.token.content;
    const AddedEntry* known = p.added.by_id(p.added.find(content));
    if (!known || !known->token.special) add(p, std::move(e));
    return p.added.find(content);
  }

  void add_more(TokenizerParts& p, const char* key) const {
    if (!map_.contains(key) || std::string_view(key) == "extra_special_tokens") add_more(p, key, config_, config_path_);
    add_more(p, key, map_, map_path_);
  }
  void add_more(TokenizerParts& p, const char* key, const Json& from, const std::string& path) const {
    if (!from.contains(key) || from[key].is_null()) return;
    if (!from[key].is_structured()) wrong_file(path, key, "it must be a list of tokens");
    for (const auto& value : from[key]) {
      AddedEntry e = read_entry(value, path, key, true);
      if (p.added.find(e.token.content) < 0) add(p, std::move(e));
    }
  }

  Json config_, map_, added_ = Json::object();
  std::string config_path_, map_path_, added_path_;
};

Json split_by(std::string_view regex) {
  return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
}

// Builds the tokenizer.json that Transformers makes from the older pair of files.
TokenizerParts from_vocab_and_merges(const std::string& vocab, const std::string& merges, const Settings& s) {
  std::string name = tokenizer_class(s.config(), s.config_path());
  bool prefix = setting(s.config(), s.config_path(), "add_prefix_space", false);
  Json bytes{{"type", "ByteLevel"}, {"add_prefix_space", prefix}, {"trim_offsets", true}, {"use_regex", true}};
  Json normalizer, pre = bytes, post{{"type", "ByteLevel"}, {"add_prefix_space", prefix}, {"trim_offsets", false}};
  if (name == "Qwen2Tokenizer") {
    normalizer = {{"type", "NFC"}};
    bytes["use_regex"] = false;
    pre = {{"type", "Sequence"}, {"pretokenizers", {split_by(pattern_text(SplitPattern::qwen2)), bytes}}};
  } else if (!name.empty() && name != "GPT2Tokenizer" && name != "GPTNeoXTokenizer") {
    throw UserError("this kind of tokenizer is not read from vocab.json and merges.txt", s.config_path() + ": tokenizer_class",
                    fmt::format("'{}' is not one of GPT2Tokenizer, GPTNeoXTokenizer, Qwen2Tokenizer", name),
                    "save it with Transformers, which writes a tokenizer.json");
  }
  std::string list;
  std::string text = read_whole(merges, kFileLimit);
  if (find_invalid_utf8(text) != std::string::npos) wrong_file(merges, "text", "it must be UTF-8");
  for (const auto& line : split(text, '\n')) {
    std::string_view l = line;
    if (l.ends_with('\r')) l.remove_suffix(1);
    if (l.empty() || l.starts_with("#version")) continue;
    if (!list.empty()) list += ',';
    list += Json(l).dump();
  }
  std::string json = fmt::format(
      R"({{"version":"1.0","normalizer":{},"pre_tokenizer":{},"post_processor":{},"decoder":{},"model":{{"type":"BPE","vocab":{},"merges":[{}]}}}})",
      normalizer.dump(), pre.dump(), post.dump(), Json{{"type", "ByteLevel"}}.dump(), read_whole(vocab, kFileLimit), list);
  return read_tokenizer_json(json, vocab);
}

TokenizerParts from_word_pieces(const std::string& path, const Settings& s) {
  std::string name = tokenizer_class(s.config(), s.config_path());
  if (!name.empty() && name != "BertTokenizer" && name != "DistilBertTokenizer" && name != "ElectraTokenizer")
    throw UserError("this kind of tokenizer is not read from vocab.txt", s.config_path() + ": tokenizer_class",
                    fmt::format("'{}' is not one of BertTokenizer, DistilBertTokenizer, ElectraTokenizer", name),
                    "save it with Transformers, which writes a tokenizer.json");
  std::string text = read_whole(path, kFileLimit);
  if (find_invalid_utf8(text) != std::string::npos) wrong_file(path, "text", "it must be UTF-8");
  Vocabulary v;
  int32_t id = 0;
  auto lines = split(text, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  for (const auto& line : lines) v.add(strip_right(line), id++);
  v.freeze();
  auto text_of = [&](const char* key, const char* fallback) {
    auto it = s.config().find(key);
    if (it == s.config().end()) return std::string(fallback);
    return it->is_string() ? it->get<std::string>() : it->is_object() ? it->value("content", fallback) : std::string(fallback);
  };
  std::string cls = text_of("cls_token", "[CLS]"), sep = text_of("sep_token", "[SEP]"), unk = text_of("unk_token", "[UNK]");
  for (const auto& t : {cls, sep, unk})
    if (v.find(t) < 0) wrong_file(path, t, "this token must be in the vocabulary");
  bool lower = setting(s.config(), s.config_path(), "do_lower_case", true);
  Json accents;
  if (s.config().contains("strip_accents")) accents = s.config()["strip_accents"];
  Json added = Json::array();
  for (const auto& t : {text_of("pad_token", "[PAD]"), unk, cls, sep, text_of("mask_token", "[MASK]")})
    if (v.find(t) >= 0) added.push_back({{"id", v.find(t)}, {"content", t}, {"special", true}, {"normalized", false}});
  Json vocab = Json::object();
  Json json{{"version", "1.0"},
            {"added_tokens", added},
            {"normalizer",
             {{"type", "BertNormalizer"},
              {"clean_text", true},
              {"handle_chinese_chars", setting(s.config(), s.config_path(), "tokenize_chinese_chars", true)},
              {"strip_accents", accents},
              {"lowercase", lower}}},
            {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
            {"post_processor", {{"type", "BertProcessing"}, {"sep", {sep, v.find(sep)}}, {"cls", {cls, v.find(cls)}}}},
            {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}}};
  std::string all;
  v.each([&](std::string_view t, int32_t i) { all += fmt::format("{}{}:{}", all.empty() ? "" : ",", Json(t).dump(), i); });
  std::string whole = json.dump();
  whole.pop_back();
  whole += fmt::format(R"(,"model":{{"type":"WordPiece","unk_token":{},"continuing_subword_prefix":"##","vocab":{{{}}}}}}})",
                       Json(unk).dump(), all);
  return read_tokenizer_json(whole, path);
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer_folder(const std::string& dir) {
  Settings settings(dir);
  TokenizerParts parts;
  std::string json = find_in_folder(dir, "tokenizer.json"), vocab = find_in_folder(dir, "vocab.json"),
              merges = find_in_folder(dir, "merges.txt");
  if (!json.empty())
    parts = read_tokenizer_json(read_whole(json, kFileLimit), json);
  else if (!vocab.empty() && !merges.empty())
    parts = from_vocab_and_merges(vocab, merges, settings);
  else
    parts = from_word_pieces(find_in_folder(dir, "vocab.txt"), settings);
  settings.apply(parts);
  return make_tokenizer(std::move(parts));
}

}  // namespace ravine
