#include "text/chat/chat_template.h"

#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "files/checksum.h"
#include "files/compressed.h"
#include "files/tokenizer_files.h"
#include "text/tokenizers/settings_file.h"

namespace ravine {

namespace {

constexpr int64_t kTemplateLimit = 4 << 20;

jinja::Template parse_template(const std::string& source, const std::string& where) {
  if (find_invalid_utf8(source) != std::string::npos)
    throw UserError("wrong chat template", where, "it must be UTF-8", "correct the file");
  try {
    return jinja::Template(source, where);
  } catch (const jinja::TemplateError& e) {
    throw UserError("wrong chat template", where, e.what(), "correct the template");
  }
}

std::optional<std::string> template_text(const Json& value, const std::string& where) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return std::nullopt;
  if (value.is_array())
    for (const auto& one : value)
      if (one.is_object() && one.value("name", Json()) == "default" && one.contains("template") && one["template"].is_string())
        return one["template"].get<std::string>();
  throw UserError("wrong tokenizer setting", where, "a chat template is a string, or a list with an entry named 'default'",
                  "correct the file");
}

}  // namespace

ChatTemplate::ChatTemplate(const std::string& source, const std::string& where, Json tokens)
    : source_(source), template_(parse_template(source, where)), tokens_(std::move(tokens)) {
  const std::string all = source + '\0' + tokens_.dump(-1, ' ', true, Json::error_handler_t::replace);
  fingerprint_ = checksum_of(std::as_bytes(std::span(all)));
}

bool ChatTemplate::names(const std::string& word) const {
  return source_.find("'" + word + "'") != std::string::npos || source_.find('"' + word + '"') != std::string::npos;
}

std::string ChatTemplate::render(const Json& conversation) const { return template_.render(variables(conversation)); }

Json ChatTemplate::variables(const Json& conversation) const {
  Json variables = tokens_;
  variables["add_generation_prompt"] = false;
  for (const char* key : {"tools", "documents"}) variables[key] = nullptr;
  for (const auto& [key, value] : conversation.items()) variables[key] = value;
  return variables;
}

std::unique_ptr<ChatTemplate> load_chat_template(const std::string& dir) {
  std::string config_path, map_path;
  Json config = read_settings(dir, "tokenizer_config.json", config_path),
       map = read_settings(dir, "special_tokens_map.json", map_path);
  Json tokens = Json::object();
  for (const Json* from : {&map, &config})  // the config wins
    for (const auto& [key, value] : from->items()) {
      if (!key.ends_with("_token")) continue;
      if (value.is_string()) tokens[key] = value;
      if (value.is_object() && value.contains("content") && value["content"].is_string()) tokens[key] = value["content"];
    }
  if (std::string file = find_in_folder(dir, "chat_template.jinja"); !file.empty())
    return std::make_unique<ChatTemplate>(read_whole(file, kTemplateLimit), file, std::move(tokens));
  if (!config.contains("chat_template")) return nullptr;
  auto text = template_text(config["chat_template"], config_path + ": chat_template");
  if (!text) return nullptr;
  return std::make_unique<ChatTemplate>(*text, config_path + ": chat_template", std::move(tokens));
}

}  // namespace ravine
