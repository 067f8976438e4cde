#include "text/chat/chat_template.h"

#include <filesystem>
#include <map>

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

struct Source {
  std::string text, where;
};
using Sources = std::map<std::string, Source>;  // by their names

Sources sources_of(const Json& value, const std::string& where) {
  Sources all;
  if (value.is_null()) return all;
  auto wrong = [&] [[noreturn]] {
    throw UserError("wrong tokenizer setting", where,
                    "a chat template is a string, or a list of {\"name\", \"template\"} with unlike names", "correct the file");
  };
  if (value.is_string()) all["default"] = {value.get<std::string>(), where};
  if (value.is_array())
    for (const auto& one : value) {
      if (!one.is_object() || !one.contains("name") || !one["name"].is_string() || !one.contains("template") ||
          !one["template"].is_string())
        wrong();
      const auto name = one["name"].get<std::string>();
      if (!all.emplace(name, Source{one["template"].get<std::string>(), where + "." + name}).second) wrong();
    }
  if (all.empty()) wrong();
  return all;
}

Sources sources_in(const std::string& dir) {
  namespace fs = std::filesystem;
  Sources all;
  if (std::string file = find_in_folder(dir, "chat_template.jinja"); !file.empty())
    all["default"] = {read_whole(file, kTemplateLimit), file};
  const fs::path more = fs::path(dir) / "additional_chat_templates";
  std::error_code error;
  for (fs::directory_iterator entry(more, error), end; !error && entry != end; entry.increment(error))
    if (const fs::path file = entry->path(); file.extension() == ".jinja")
      all[file.stem().string()] = {read_whole(file.string(), kTemplateLimit), file.string()};
  return all;
}

}  // namespace

ChatTemplate::ChatTemplate(const std::string& source, const std::string& where, Json tokens)
    : source_(source), template_(parse_template(source, where)), tokens_(std::move(tokens)) {
  take_fingerprint();
}

void ChatTemplate::with_tools(const std::string& source, const std::string& where) {
  source_ += '\0' + source;
  with_tools_ = parse_template(source, where);
  take_fingerprint();
}

void ChatTemplate::take_fingerprint() {
  const std::string all = source_ + '\0' + tokens_.dump(-1, ' ', true, Json::error_handler_t::replace);
  fingerprint_ = checksum_of(std::as_bytes(std::span(all)));
}

bool ChatTemplate::names(const std::string& word) const {
  return source_.find("'" + word + "'") != std::string::npos || source_.find('"' + word + '"') != std::string::npos;
}

std::string ChatTemplate::render(const Json& conversation) const { return code(conversation).render(variables(conversation)); }

const jinja::Template& ChatTemplate::code(const Json& conversation) const {
  const bool tools = conversation.contains("tools") && !conversation["tools"].is_null();
  if (tools_alone_ && !tools)
    jinja::raise("of several chat templates none is named 'default', and tool_use is for conversations with tools");
  return with_tools_ && tools ? *with_tools_ : template_;
}

Json ChatTemplate::variables(const Json& conversation) const {
  Json variables = tokens_;
  variables["add_generation_prompt"] = false;
  for (const char* key : {"tools", "documents"}) variables[key] = nullptr;
  for (const auto& [key, value] : conversation.items()) variables[key] = value;
  return variables;
}

std::unique_ptr<ChatTemplate> load_chat_template(const std::string& dir) {
  std::string config_path, map_path;
  const Json config = read_settings(dir, "tokenizer_config.json", config_path), map = read_tokens_map(dir, config, map_path);
  Json tokens = Json::object();
  for (const char* key : {"bos_token", "eos_token", "pad_token", "unk_token"})
    if (const Json usual = usual_token(config, config_path, key); usual.is_string()) tokens[key] = usual;
  for (const Json* from : {&config, &map})  // the map takes precedence
    for (const auto& [key, value] : from->items()) {
      if (!key.ends_with("_token")) continue;
      if (value.is_null()) tokens.erase(key);
      if (value.is_string()) tokens[key] = value;
      if (value.is_object() && value.contains("content") && value["content"].is_string()) tokens[key] = value["content"];
    }
  Sources sources = sources_in(dir);
  if (sources.empty() && config.contains("chat_template"))
    sources = sources_of(config["chat_template"], config_path + ": chat_template");
  if (sources.empty()) return nullptr;
  const auto usual = sources.find("default"), tools = sources.find("tool_use");
  if (usual == sources.end() && tools != sources.end()) {
    auto chat = std::make_unique<ChatTemplate>(tools->second.text, tools->second.where, std::move(tokens));
    chat->for_tools_alone();
    return chat;
  }
  if (usual == sources.end()) {
    std::vector<std::string> names;
    for (const auto& [name, source] : sources) names.push_back(name);
    throw UserError("no chat template named 'default'", sources.begin()->second.where,
                    fmt::format("the template 'default' is used, and tool_use for conversations with tools; there are {}",
                                fmt::join(names, ", ")),
                    "name one 'default' (as a file: chat_template.jinja), or name the file of one as the chat template");
  }
  auto chat = std::make_unique<ChatTemplate>(usual->second.text, usual->second.where, std::move(tokens));
  if (tools != sources.end()) chat->with_tools(tools->second.text, tools->second.where);
  return chat;
}

}  // namespace ravine
