#include "apps/replayed_run.h"

#include <filesystem>

#include "base/missing_path.h"
#include "base/narrow_option.h"
#include "base/parallel.h"
#include "config/load.h"
#include "io/checkpoint.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

bool has_config(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / "config.yaml", error);
}

// Returns RUN of RUN/checkpoints/step_N.
std::string run_of(const std::string& checkpoint) {
  const fs::path folder = fs::absolute(checkpoint).lexically_normal();
  const fs::path run = (folder.has_filename() ? folder : folder.parent_path()).parent_path().parent_path();
  if (has_config(run)) return run.string();
  throw UserError("the run of this checkpoint is not known", checkpoint, "RUN/config.yaml says how its steps are made",
                  "name the run by --run RUN");
}

}  // namespace

Config config_of_replay(const std::string& from, const std::string& run, int64_t threads) {
  const bool checkpoint = is_checkpoint(from);
  if (!checkpoint && !has_config(from))
    throw UserError("no checkpoint", from, "a replay goes on from a checkpoint of a run, or from its beginning",
                    fs::exists(from) ? "name RUN/checkpoints/step_N or RUN" : missing_path_advice(from));
  const std::string folder = !run.empty() ? run : checkpoint ? run_of(from) : from;
  // Training from the start refuses a folder with a run, and a replay writes no folder: it gets a path that does not
  // exist.
  const std::string output = checkpoint ? folder : folder + "/replay";
  Config config = load_config(folder + "/config.yaml",
                              {{.key = "checkpoint.resume", .value = checkpoint ? from : kResumeNone, .literal = true},
                               {.key = "train.output", .value = output, .literal = true}});
  if (threads > 0) config.train.threads = threads;
  if (config.train.threads > 0) set_thread_count(narrow_option<int>(config.train.threads, "train.threads"));
  return config;
}

int64_t step_before_replay(const std::string& from) { return is_checkpoint(from) ? CheckpointReader(from, false).step() : 0; }

}  // namespace ravine
