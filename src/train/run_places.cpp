#include "train/run_places.h"

#include <filesystem>

#include "base/error.h"
#include "base/shell_word.h"
#include "config/config.h"
#include "train/run_folder.h"

namespace ravine {
namespace {

namespace fs = std::filesystem;

bool holds(const fs::path& folder, const char* name) {
  std::error_code error;
  return fs::exists(folder / name, error);
}

}  // namespace

bool is_prepared(const std::string& folder) {
  std::error_code error;
  return fs::is_directory(folder, error) && fs::is_regular_file(fs::path(folder) / "run.yaml", error) && !is_run(folder) && !holds(folder, "config.json");
}

std::string run_meant_by(const std::string& path) {
  if (!is_prepared(path)) return path;
  const std::string config = (fs::path(path) / "run.yaml").lexically_normal().string();
  const fs::path moved = (fs::path(path) / "run").lexically_normal();
  if (const std::string said = load_config(config, {}).train.output; is_run(said)) return said;
  if (is_run(moved.string())) return moved.string();
  throw UserError("nothing has run here yet", path, "`ravine init` has prepared this folder, a run makes the model", fmt::format("begin it by `ravine train --config {}`", shell_word(config)));
}

std::string model_meant_by(const std::string& path, const std::string& key) {
  const fs::path run = run_meant_by(path);
  if (!is_run(run.string()) || holds(run, "config.json")) return path;
  if (holds(run / "model", "config.json")) return (run / "model").lexically_normal().string();
  throw UserError("a run without a model", fmt::format("{}={}", key, path), "it is written when the run has come to its end",
                  fmt::format("go on with it by `ravine train --config {}`, or make a model of its newest checkpoint by `ravine convert --input {} --output DIR --to hf`",
                              shell_word((run / "config.yaml").string()), shell_word(run.string())));
}

}  // namespace ravine
