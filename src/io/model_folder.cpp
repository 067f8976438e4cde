#include "io/model_folder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/missing_path.h"
#include "base/shell_word.h"
#include "config/other_names.h"
#include "io/adapter_folder.h"
#include "io/checkpoint.h"
#include "io/convert/convert.h"
#include "io/convert/megatron_place.h"
#include "io/convert/trainer_state.h"
#include "io/convert/zero_checkpoint.h"
#include "io/foreign_kinds.h"

namespace ravine {
namespace fs = std::filesystem;
namespace {

bool has_weights(const fs::path& folder) {
  std::error_code error;
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator(); it.increment(error)) {
    const std::string file = it->path().filename().string();
    if (file.ends_with(".safetensors") || file.ends_with(".safetensors.index.json") || file.starts_with("pytorch_model"))
      return true;
  }
  return false;
}

// Returns the snapshot of main, else the last by name, in a folder of Hugging Face's cache (models--owner--name); "" if
// it is not such a folder.
std::string snapshot_in(const fs::path& folder) {
  std::error_code error;
  std::string newest;
  std::ifstream main(folder / "refs" / "main");
  if (std::string hash; main >> hash && fs::exists(folder / "snapshots" / hash / "config.json", error))
    return (folder / "snapshots" / hash).string();
  for (auto it = fs::directory_iterator(folder / "snapshots", error); !error && it != fs::directory_iterator();
       it.increment(error))
    if (fs::exists(it->path() / "config.json", error)) newest = std::max(newest, it->path().string());
  return newest;
}

// Returns the alphabetically first subfolder that is a model; "" if there is none.
std::string model_inside(const fs::path& folder) {
  std::error_code error;
  std::string first;
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator(); it.increment(error))
    if (fs::exists(it->path() / "config.json", error) && (first.empty() || it->path().string() < first))
      first = it->path().string();
  return first;
}

// Returns the advice how a run can start from a folder that is not a checkpoint of Ravine.
std::string next_step(const Recognised& found, const std::string& folder) {
  if (found.layout == WeightLayout::hf) return "a model folder to go on from is model.path";
  const std::string convert =
      fmt::format("make one of it: `ravine convert --input {} --output RUN --to ravine --optimizer`", folder);
  return fmt::format("go on from it in place with checkpoint.layout={}, or {}", name(found.layout), convert);
}

}  // namespace

void check_model_folder(const std::string& folder, const std::string& key) {
  refuse_adapter(folder, key);
  std::error_code error;
  const fs::path path = folder;
  const bool is_folder = fs::is_directory(path, error);
  const std::string where = fmt::format("{}={}", key, folder),
                    rule = "it must be a Hugging Face folder: config.json, weights, tokenizer";
  auto refuse_other_layout = [&] {
    const auto found = recognise(folder);
    if (found && found->layout != WeightLayout::hf && found->layout != WeightLayout::trainer)
      throw UserError(fmt::format("a {}, not a model folder", found->what), where, rule,
                      fmt::format("make one of it: `ravine convert --input {} --output DIR --to hf`", folder));
    if (const auto kind = foreign_kind(folder))
      throw UserError(fmt::format("{}, not a model folder that is read", kind->what), where, rule, kind->fix);
  };
  if (is_folder && fs::exists(path / "config.json", error)) {
    if (!has_weights(path) && !holds_megatron(folder) && !is_zero_checkpoint(folder))
      refuse_other_layout();  // code that needs weights reports that there are none
    return;
  }
  if (is_folder && key == "--model" && !has_weights(path) && holds_megatron(folder)) return;
  if (const auto kind = is_folder ? std::nullopt : foreign_kind(folder)) throw UserError(kind->what, where, rule, kind->fix);
  if (!fs::exists(path, error)) {
    const std::string advice = missing_path_advice(folder, Hub::models);
    throw UserError("no such folder", where,
                    advice.find("download") == std::string::npos ? rule : "models are read from folders, not from a hub",
                    advice);
  }
  if (!is_folder && path.extension() == ".json")
    throw UserError(
        "a file where a folder is needed", where, rule,
        fmt::format("name its folder; a config alone begins with new weights: `model.config={}` in train and plan", folder));
  if (!is_folder)
    throw UserError("a file where a folder is needed", where, rule,
                    path.has_parent_path() && fs::exists(path.parent_path() / "config.json", error)
                        ? "name its folder, " + path.parent_path().string()
                        : "name a model folder; this file is not in one");
  if (fs::exists(path / "model" / "config.json", error))
    throw UserError("a run, not a model", where, rule, fmt::format("its model is {}", (path / "model").string()));
  if (fs::exists(path / "run" / "model" / "config.json", error))
    throw UserError("a folder of `ravine init`, not a model", where, rule,
                    fmt::format("the model of its run is {}", (path / "run" / "model").string()));
  refuse_other_layout();
  if (const std::string snapshot = snapshot_in(path); !snapshot.empty())
    throw UserError("a folder of the hub's cache, not a model", where, rule, fmt::format("name its snapshot: {}", snapshot));
  if (const std::string inside = model_inside(path); !inside.empty())
    throw UserError("the folder has no config.json", where, rule, fmt::format("did you mean '{}'?", inside));
  throw UserError("the folder has no config.json", where, rule,
                  has_weights(path) ? "copy the config.json that belongs to these weights into it"
                                    : "it has no weights either: name the folder of a model");
}

void check_model_config(const std::string& file) {
  std::error_code error;
  const std::string where = "model.config=" + file, rule = "it must be a model's config.json";
  if (const fs::path shape = fs::path(file) / "model.json";
      fs::is_directory(file, error) && !fs::exists(fs::path(file) / "config.json", error) && fs::exists(shape, error))
    throw UserError("a folder of `ravine init`", where, rule,
                    fmt::format("the shape of its model is model.config={}; its run is begun by --config {}",
                                shape.lexically_normal().string(), (fs::path(file) / "run.yaml").lexically_normal().string()));
  if (const fs::path model = fs::path(file) / "model" / "config.json";
      fs::is_directory(file, error) && !fs::exists(fs::path(file) / "config.json", error) && fs::exists(model, error))
    throw UserError("a run, not a model's config", where, rule,
                    fmt::format("model.path={} goes on from its weights, model.config={} begins with new ones",
                                model.parent_path().lexically_normal().string(), model.lexically_normal().string()));
  if (fs::is_directory(file, error) && !fs::exists(fs::path(file) / "config.json", error))
    throw UserError("a folder without a config.json", where, rule, "name such a file; configs/ has some");
  if (fs::is_directory(file, error))
    throw UserError("a folder", where, rule,
                    fmt::format("model.path={0} goes on from its weights, model.config={0}/config.json begins with new ones",
                                fs::path(file).lexically_normal().string()));
  if (!fs::exists(file, error)) throw UserError("no such file", where, rule, missing_path_advice(file));
  if (file.ends_with(".yaml") || file.ends_with(".yml"))
    throw UserError("options of a run", where, rule, "they are given as --config " + file);
  if (!file.ends_with(".json") && fs::is_regular_file(file, error)) {
    char first = 0;
    std::ifstream(file) >> first;
    if (first != '{')
      throw UserError("not a model's config", where, rule + ", an object of JSON", "name such a file; configs/ has some");
  }
}

void check_checkpoint_folder(const std::string& folder, const std::string& key) {
  std::error_code error;
  const fs::path path = folder;
  if (is_checkpoint(folder)) return;
  const std::string where = fmt::format("{}={}", key, folder),
                    rule = "it must be the folder of a checkpoint, such as RUN/checkpoints/step_000100";
  if (const std::string suggestion = other_value_advice(key, folder); !suggestion.empty() && !fs::exists(path, error))
    throw UserError(where, "command line or config",
                    "it must be auto (the newest checkpoint), none (begin anew) or a checkpoint folder", suggestion);
  if (!fs::is_directory(path, error)) throw UserError("no such folder", where, rule, missing_path_advice(folder));
  for (const fs::path& checkpoints : {path / "checkpoints", path})
    if (const auto newest = first_step_to_try(checkpoints.string()))
      throw UserError("a run, not a checkpoint", where, rule,
                      fmt::format("its newest is {}", (checkpoints / checkpoint_name(*newest)).string()));
  if (is_trainer_checkpoint(folder))
    throw UserError("a checkpoint of Transformers' Trainer, not of Ravine", where, rule,
                    "set checkpoint.layout=trainer, which resumes from such folders and writes them");
  if (find_adapter(folder))
    throw UserError("an adapter, not a checkpoint", where, rule,
                    fmt::format("an adapter to go on from is lora.path={}", shell_word(folder)));
  if (const auto found = recognise(folder); found && found->layout != WeightLayout::ravine)
    throw UserError(fmt::format("a {}, not a checkpoint of Ravine", found->what), where, rule, next_step(*found, folder));
  if (const auto kind = foreign_kind(folder))
    throw UserError(fmt::format("{}, not a checkpoint of Ravine", kind->what), where, rule, kind->fix);
  throw UserError("the manifest is missing", fmt::format("{}: {}", key, (path / "manifest.json").string()), rule,
                  "use another checkpoint, or checkpoint.resume=auto for the newest of the run");
}

}  // namespace ravine
