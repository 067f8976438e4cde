#include "text/tokenizers/llama_settings.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "text/tokenizers/settings_file.h"

namespace ravine {

namespace {

constexpr int64_t kMaxId = 1 << 24;

[[noreturn]] void wrong_setting(const std::string& file, const std::string& key, const std::string& rule) {
  throw UserError("wrong tokenizer setting", file + ": " + key, rule, "correct the file");
}

void read_bool(const Json& j, const std::string& file, const char* key, bool& into) {
  auto it = j.find(key);
  if (it == j.end() || it->is_null()) return;
  if (!it->is_boolean()) wrong_setting(file, key, "it must be true or false");
  into = it->get<bool>();
}

// Reads a special token: a string, or an object with `content` and flags.
AddedToken read_token(const Json& j, const std::string& file, const std::string& key) {
  AddedToken t;
  if (j.is_string()) {
    t.content = j.get<std::string>();
  } else if (j.is_object() && j.contains("content") && j["content"].is_string()) {
    t.content = j["content"].get<std::string>();
    read_bool(j, file, "lstrip", t.lstrip);
    read_bool(j, file, "rstrip", t.rstrip);
    read_bool(j, file, "single_word", t.single_word);
    read_bool(j, file, "special", t.special);
  } else {
    wrong_setting(file, key, "a token is a string or an object with the string 'content'");
  }
  if (t.content.empty()) wrong_setting(file, key, "a token must not be empty");
  return t;
}

int32_t checked_id(int64_t id, const std::string& file, const std::string& key) {
  if (id < 0 || id >= kMaxId) wrong_setting(file, key, fmt::format("token ids are 0 to {}", kMaxId - 1));
  return static_cast<int32_t>(id);
}

const std::vector<std::string> kClasses = {"LlamaTokenizer", "LlamaTokenizerFast", "InternLMTokenizer", "BaichuanTokenizer"};

void check_class(const Json& config, const std::string& file) {
  auto it = config.find("tokenizer_class");
  if (it == config.end() || it->is_null()) return;
  if (!it->is_string()) wrong_setting(file, "tokenizer_class", "it must be a string");
  std::string name = *it;
  if (std::find(kClasses.begin(), kClasses.end(), name) == kClasses.end())
    throw UserError(
        "this kind of tokenizer is not read from tokenizer.model", file + ": tokenizer_class",
        fmt::format("'{}' is not one of {}", name, fmt::join(kClasses, ", ")),
        "put its tokenizer.json into the folder, or name the tokenizer.model file itself to use it as raw SentencePiece");
}

}  // namespace

bool is_llama_folder(const std::string& dir) {
  std::string path;
  Json config = read_settings(dir, "tokenizer_config.json", path);
  auto it = config.find("tokenizer_class");
  if (it == config.end() || !it->is_string()) return true;
  return std::find(kClasses.begin(), kClasses.end(), it->get<std::string>()) != kClasses.end();
}

bool is_nearly_llama_folder(const std::string& dir) {
  std::string path;
  const Json config = read_settings(dir, "tokenizer_config.json", path);
  for (const char* name : {"PreTrainedTokenizer", "TokenizersBackend", "CodeLlamaTokenizer", "GemmaTokenizer"})
    if (tokenizer_class(config, path) == name) return true;
  return false;
}

LlamaSettings load_llama_settings(const std::string& dir, int64_t pieces,
                                  const std::function<int32_t(const std::string&)>& piece_id, bool any_class) {
  LlamaSettings s;
  std::string config_path, map_path, added_path;
  Json config = read_settings(dir, "tokenizer_config.json", config_path);
  Json map = read_tokens_map(dir, config, map_path);
  if (!any_class) check_class(config, config_path);
  read_bool(config, config_path, "legacy", s.legacy);
  read_bool(config, config_path, "add_bos_token", s.add_bos);
  read_bool(config, config_path, "add_eos_token", s.add_eos);
  read_bool(config, config_path, "add_prefix_space", s.add_prefix_space);
  read_bool(config, config_path, "split_special_tokens", s.split_special);

  if (auto it = config.find("added_tokens_decoder"); it != config.end() && !it->is_null()) {
    if (!it->is_object()) wrong_setting(config_path, "added_tokens_decoder", "it must be an object");
    for (const auto& [key, value] : it->items()) {
      std::string where = "added_tokens_decoder." + key;
      int64_t id = -1;
      auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (error != std::errc{} || end != key.data() + key.size())
        wrong_setting(config_path, where, "the key must be a token id");
      AddedToken t = read_token(value, config_path, where);
      t.id = checked_id(id, config_path, where);
      s.added.add(t);
    }
  } else {
    Json added = read_settings(dir, "added_tokens.json", added_path);
    for (const auto& [key, value] : added.items()) {
      if (key.empty() || !value.is_number_integer()) wrong_setting(added_path, key, "it must map a string to a token id");
      AddedToken t;
      t.content = key;
      t.id = checked_id(value.get<int64_t>(), added_path, key);
      s.added.add(t);
    }
  }

  int64_t next = pieces;
  for (const auto& t : s.added.list()) next = std::max<int64_t>(next, int64_t{t.id} + 1);
  auto add_token = [&](AddedToken t) {
    t.special = true;
    if (const AddedToken* known = s.added.by_content(t.content)) {
      bool named = t.named || known->named;
      t = *known;
      t.special = true;
      t.named = named;
    } else {
      int32_t id = piece_id(t.content);
      t.id = id >= 0 ? id : static_cast<int32_t>(next++);
    }
    s.added.add(t);
  };
  const std::pair<const char*, const char*> names[] = {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"},
                                                       {"sep_token", ""},    {"pad_token", ""},     {"cls_token", ""},
                                                       {"mask_token", ""}};
  for (const auto& [key, fallback] : names) {
    AddedToken t;
    t.content = fallback;
    const bool in_map = map.contains(key);
    if (in_map || config.contains(key)) {
      const Json& from = in_map ? map : config;
      if (from[key].is_null()) continue;
      t = read_token(from[key], in_map ? map_path : config_path, key);
    }
    if (t.content.empty()) continue;
    t.named = true;
    s.named[key] = t.content;
    add_token(t);
  }
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    const Json& from = map.contains(key) ? map : config;
    const std::string& path = map.contains(key) ? map_path : config_path;
    if (!from.contains(key) || from[key].is_null()) continue;
    if (!from[key].is_structured()) wrong_setting(path, key, "it must be a list of tokens");
    for (const auto& value : from[key]) add_token(read_token(value, path, key));
  }
  return s;
}

}  // namespace ravine
