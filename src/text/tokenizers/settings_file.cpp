#include "text/tokenizers/settings_file.h"

#include <filesystem>

#include "base/error.h"

namespace ravine {

namespace fs = std::filesystem;

Json read_settings(const std::string& dir, const char* name, std::string& path) {
  path = (fs::path(dir) / name).string();
  std::error_code ec;
  if (!fs::exists(path, ec)) return Json::object();
  Json j = read_json(path);
  if (!j.is_object()) throw UserError("wrong tokenizer settings", path, "it must be a JSON object", "correct the file");
  return j;
}

Json read_tokens_map(const std::string& dir, const Json& config, std::string& path) {
  return config.contains("added_tokens_decoder") ? Json::object() : read_settings(dir, "special_tokens_map.json", path);
}

std::string tokenizer_class(const Json& config, const std::string& path) {
  auto it = config.find("tokenizer_class");
  if (it == config.end() || it->is_null()) return "";
  if (!it->is_string())
    throw UserError("wrong tokenizer setting", path + ": tokenizer_class", "it must be a string", "correct the file");
  std::string name = *it;
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return name;
}

Json usual_token(const Json& config, const std::string& path, std::string_view key) {
  const std::string name = tokenizer_class(config, path);
  if (name != "GPT2Tokenizer" && name != "GPTNeoXTokenizer" && name != "Qwen2Tokenizer") return nullptr;
  if (key == "eos_token" || key == "unk_token" || key == (name == "Qwen2Tokenizer" ? "pad_token" : "bos_token"))
    return "<|endoftext|>";
  return key == "pad_token" && name == "GPTNeoXTokenizer" ? Json("<|padding|>") : Json();
}

}  // namespace ravine
