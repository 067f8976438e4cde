#include "io/adapter_folder.h"

#include <filesystem>

#include <fmt/format.h>

#include "base/error.h"
#include "base/program_name.h"
#include "base/shell_word.h"
#include "base/text.h"

namespace ravine {
namespace fs = std::filesystem;
namespace {

// Weights of a whole model, or an index of them.
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
  for (const char* name : {"adapter_model.bin", "adapter_model.safetensors"})  // PEFT prefers the latter
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

void refuse_adapter(const std::string& folder, const std::string& key) {
  const auto adapter = find_adapter(folder);
  if (!adapter) return;
  std::string base = "BASE", of = "a base model";
  try {
    const Json config = adapter_config(*adapter);
    if (const auto it = config.find("base_model_name_or_path"); it != config.end() && it->is_string() && *it != Json(""))
      base = shell_word(it->get<std::string>()), of = "the model " + escaped(it->get<std::string>());
  } catch (const UserError&) {  // refused in any case
  }
  throw UserError(
      "an adapter, not a model", fmt::format("{}={}", key, folder), fmt::format("a PEFT folder holds changes to {}", of),
      fmt::format(
          "give both: --model {0} --adapter {1}; or make one model of them: {2} merge-lora --model {0} --adapter {1} --output MERGED",
          escaped(base), shell_word(folder), program_word()));
}

}  // namespace ravine
