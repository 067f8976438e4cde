#include "io/model_folder.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "files/compressed.h"
#include "io/adapter_folder.h"
#include "io/convert/convert.h"

namespace ravine {
namespace fs = std::filesystem;
namespace {

// "owner/name", as the hub calls models: one slash, no other sign of a path.
bool looks_like_hub_name(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == text.size() || text.find('/', slash + 1) != std::string::npos || text[0] == '.' || text[0] == '~') return false;
  std::error_code error;
  return !fs::exists(text.substr(0, slash), error);
}

}  // namespace

void check_model_folder(const std::string& folder, const std::string& key) {
  refuse_adapter(folder, key);
  std::error_code error;
  const fs::path path = folder;
  const bool is_folder = fs::is_directory(path, error);
  if (is_folder && fs::exists(path / "config.json", error)) return;
  const std::string where = fmt::format("{}={}", key, folder), rule = "it must be a Hugging Face folder: config.json, weights, tokenizer";
  if (!fs::exists(path, error)) {
    if (looks_like_hub_name(folder))
      throw UserError("no such folder", where, "models are read from folders, not from a hub",
                      fmt::format("download it first: `hf download {} --local-dir {}`, then name that folder", folder, path.filename().string()));
    throw UserError("no such folder", where, rule, "check the path");
  }
  if (!is_folder && path.extension() == ".json")
    throw UserError("a file where a folder is needed", where, rule,
                    fmt::format("name its folder; a config alone begins with new weights: `model.config={}` in train and plan", folder));
  if (!is_folder) throw UserError("a file where a folder is needed", where, rule, path.has_parent_path() && fs::exists(path.parent_path() / "config.json", error) ? "name its folder, " + path.parent_path().string() : "name the folder that holds it");
  if (fs::exists(path / "model" / "config.json", error)) throw UserError("a run, not a model", where, rule, fmt::format("its model is {}", (path / "model").string()));
  if (const auto found = recognise(folder); found && found->layout != WeightLayout::hf)
    throw UserError(fmt::format("a {}, not a model folder", found->what), where, rule, fmt::format("make one of it: `ravine convert --input {} --output DIR --to hf`", folder));
  throw UserError("the folder has no config.json", where, rule, "copy the config.json of the model into it");
}

void check_checkpoint_folder(const std::string& folder, const std::string& key) {
  std::error_code error;
  const fs::path path = folder;
  if (fs::exists(path / "manifest.json", error)) return;
  const std::string where = fmt::format("{}={}", key, folder), rule = "it must be the folder of a checkpoint, such as RUN/checkpoints/step_000100";
  if (!fs::is_directory(path, error)) throw UserError("no such folder", where, rule, "check the path");
  for (const fs::path& checkpoints : {path / "checkpoints", path})
    if (const std::string latest = (checkpoints / "latest").string(); fs::is_regular_file(latest, error)) {
      std::string name = read_whole(latest, 4096);
      name.resize(name.find_last_not_of(" \r\n") + 1);
      throw UserError("a run, not a checkpoint", where, rule, fmt::format("its newest is {}", (checkpoints / name).string()));
    }
  if (const auto found = recognise(folder); found && found->layout != WeightLayout::ravine)
    throw UserError(fmt::format("a {}, not a checkpoint of Ravine", found->what), where, rule,
                    found->layout == WeightLayout::hf ? "a model folder to go on from is model.path" : fmt::format("make one of it: `ravine convert --input {} --output RUN --to ravine --optimizer`", folder));
  throw UserError("the manifest is missing", fmt::format("{}: {}", key, (path / "manifest.json").string()), rule, "use another checkpoint, or checkpoint.resume=auto for the newest of the run");
}

}  // namespace ravine
