#include "train/run_places.h"

#include <filesystem>

#include "base/error.h"
#include "base/shell_word.h"
#include "config/config.h"
#include "files/fd.h"
#include "files/same_path.h"
#include "train/run_folder.h"

namespace ravine {
namespace {

namespace fs = std::filesystem;

bool holds(const fs::path& folder, const char* name) {
  std::error_code error;
  return fs::exists(folder / name, error);
}

// A prepared folder holds a run, and its run.yaml names one elsewhere: that of the folder which this one was copied from, or
// the place where it lay.
bool is_copy(const fs::path& prepared, const std::string& said) {
  std::error_code error;
  return is_run((prepared / "run").string()) && !lies_within(said, prepared.string()) &&
         (!fs::exists(said, error) || is_prepared(folder_of(said)));
}

}  // namespace

bool is_prepared(const std::string& folder) {
  std::error_code error;
  return fs::is_directory(folder, error) && fs::is_regular_file(fs::path(folder) / "run.yaml", error) && !is_run(folder) &&
         !holds(folder, "config.json");
}

std::string run_meant_by(const std::string& path) {
  if (!is_prepared(path)) return path;
  const std::string config = (fs::path(path) / "run.yaml").lexically_normal().string();
  const fs::path moved = (fs::path(path) / "run").lexically_normal();
  if (std::string said = load_config(config, {}).train.output; is_run(said) && !is_copy(path, said)) return said;
  if (is_run(moved.string())) return moved.string();
  throw UserError("nothing has run here yet", path, "`ravine init` has prepared this folder, a run makes the model",
                  fmt::format("begin it by `ravine train --config {}`", shell_word(config)));
}

std::string model_meant_by(const std::string& path, const std::string& key) {
  const fs::path run = run_meant_by(path);
  if (!is_run(run.string()) || holds(run, "config.json")) return path;
  if (holds(run / "model", "config.json")) return (run / "model").lexically_normal().string();
  throw UserError(
      "a run without a model", fmt::format("{}={}", key, path), "it is written when the run has come to its end",
      fmt::format(
          "go on with it by `{}`, or make a model of its newest checkpoint by `ravine convert --input {} --output DIR --to hf`",
          command_that_goes_on_in(run.string()), shell_word(run.string())));
}

std::string command_that_goes_on_in(const std::string& run) {
  const std::string file = (fs::path(run) / "config.yaml").string();
  std::string other;
  try {
    if (!same_path(load_config(file).train.output, run)) other = " train.output=" + shell_word(run);
  } catch (const Error&) {  // `train` says what is wrong with it
  }
  return fmt::format("ravine train --config {}{}", shell_word(file), other);
}

void refuse_config_of_other_run(const Config& config) {
  const auto source = config.sources.find("train.output");
  if (source == config.sources.end()) return;
  const std::string file = source->second.substr(0, source->second.rfind(':')), folder = folder_of(file),
                    name = fs::path(file).filename().string();
  const std::string& said = config.train.output;
  std::string own;
  if (name == "config.yaml" && is_run(folder)) own = folder;
  if (name == "run.yaml" && is_prepared(folder) && is_copy(folder, said)) own = folder + "/run";
  if (own.empty() || same_path(own, said)) return;
  throw UserError("train.output is another folder than that of the run which lies here", file,
                  fmt::format("it was copied or moved, and says {}", said),
                  fmt::format("say which is meant: train.output={} for the run here, train.output={} for that one",
                              shell_word(own), shell_word(said)));
}

}  // namespace ravine
