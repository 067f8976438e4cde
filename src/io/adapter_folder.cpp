#include "io/adapter_folder.h"

#include <filesystem>

#include <fmt/format.h>

#include "base/error.h"
#include "base/missing_path.h"
#include "base/program_name.h"
#include "base/shell_word.h"
#include "base/text.h"
#include "files/tokenizer_files.h"
#include "io/convert/megatron_place.h"
#include "text/chat/chat_template.h"

namespace ravine {
namespace fs = std::filesystem;
namespace {

// True if the folder holds weights of a whole model, or an index of them.
bool has_model_weights(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if ((name.starts_with("model") && name.find(".safetensors") != std::string::npos) ||
        (name.starts_with("pytorch_model") && name.find(".bin") != std::string::npos))
      return true;
  }
  return false;
}

}  // namespace

std::optional<AdapterFolder> find_adapter(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return {};
  AdapterFolder found;
  const fs::path path = folder;
  if (fs::is_regular_file(path / "adapter_config.json", error)) found.config_file = (path / "adapter_config.json").string();
  for (const char* name : {"adapter_model.bin", "adapter_model.safetensors"})  // the latter is preferred, as in PEFT
    if (fs::is_regular_file(path / name, error)) found.weights_file = (path / name).string();
  if ((found.config_file.empty() && found.weights_file.empty()) || has_model_weights(path)) return {};
  return found;
}

Json adapter_config(const AdapterFolder& adapter) {
  if (adapter.config_file.empty()) return Json::object();
  Json config = read_json(adapter.config_file);
  if (!config.is_object())
    throw UserError("not the config of an adapter", adapter.config_file, "it must be a JSON object",
                    "save the adapter again with PEFT");
  return config;
}

void check_adapter_folder(const std::string& folder, const std::string& key) {
  const std::string
      where = fmt::format("{}={}", key, folder),
      rule = "it must be the folder of a LoRA adapter as PEFT saves it: adapter_config.json, adapter_model.safetensors";
  auto refuse = [&](const std::string& what, const std::string& fix) { throw UserError(what, where, rule, fix); };
  const fs::path path = folder;
  std::error_code error;
  auto holds = [&](const fs::path& in) { return fs::is_regular_file(in / "adapter_config.json", error); };
  if (!fs::exists(path, error)) refuse("no such folder", missing_path_advice(folder, Hub::models));
  if (!fs::is_directory(path, error))
    refuse("a file where a folder is needed", holds(path.parent_path())
                                                  ? fmt::format("name its folder, {}", shell_word(path.parent_path().string()))
                                                  : "name the folder that PEFT has saved");
  if (const auto found = find_adapter(folder)) {
    if (found->config_file.empty())
      refuse(fmt::format("adapter_config.json is missing beside {}", fs::path(found->weights_file).filename().string()),
             "copy it there: it says which modules have adapters, and of which rank");
    if (found->weights_file.empty())
      refuse("no weights of an adapter beside adapter_config.json",
             "copy adapter_model.safetensors, or adapter_model.bin, there");
    return;
  }
  if (is_megatron_folder(folder)) return;
  if (fs::exists(path / "config.json", error)) refuse("a model, not an adapter", "name it as the model, and an adapter here");
  std::string inside;
  for (const auto& entry : fs::directory_iterator(path, error))
    if (entry.is_directory(error) && holds(entry.path()) && (inside.empty() || entry.path().string() < inside))
      inside = entry.path().string();
  refuse("not the folder of an adapter", inside.empty()
                                             ? "name the folder that PEFT has saved, or that a run with lora.rank has made"
                                             : fmt::format("did you mean '{}'?", inside));
}

ChatPaths chat_paths(const std::string& folder, const std::string& adapter) {
  ChatPaths chat{folder, "", folder};
  if (adapter.empty()) return chat;
  std::error_code error;
  const fs::path adapter_path = adapter;
  if (has_tokenizer(adapter)) {
    chat.tokenizer = adapter;
    if (!load_chat_template(adapter) && fs::is_directory(folder, error) && load_chat_template(folder))
      chat.chat_template = folder;
  } else if (fs::is_regular_file(adapter_path / "chat_template.jinja", error)) {
    chat.chat_template = (adapter_path / "chat_template.jinja").string();
  }
  if (fs::is_regular_file(adapter_path / "generation_config.json", error)) chat.generation = adapter;
  return chat;
}

void refuse_adapter(const std::string& folder, const std::string& key) {
  const auto adapter = find_adapter(folder);
  if (!adapter) return;
  std::string base = "BASE", of = "a base model";
  try {
    const Json config = adapter_config(*adapter);
    if (const auto it = config.find("base_model_name_or_path"); it != config.end() && it->is_string() && *it != Json(""))
      base = shell_word(it->get<std::string>()), of = "the model " + escaped(it->get<std::string>());
  } catch (const UserError&) {  // the UserError below is thrown in any case
  }
  const std::string model = escaped(base), own = shell_word(folder),
                    both = key == "model.path"
                               ? fmt::format("give both: model.path={} lora.path={} trains it on; or ", model, own)
                           : key == "--input" ? fmt::format("give both: --input {} --adapter {}; or ", model, own)
                           : key == "--model"
                               ? fmt::format("give both, where the command takes an adapter: --model {} --adapter {}; or ",
                                             model, own)
                               : "";
  throw UserError("an adapter, not a model", fmt::format("{}={}", key, folder),
                  fmt::format("a PEFT folder holds changes to {}", of),
                  fmt::format("{}make one model of them: {} merge-lora --model {} --adapter {} --output MERGED", both,
                              program_word(), model, own));
}

}  // namespace ravine
