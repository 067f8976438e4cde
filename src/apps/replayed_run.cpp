#include "apps/replayed_run.h"

#include <cmath>
#include <filesystem>

#include "base/missing_path.h"
#include "base/narrow_option.h"
#include "base/parallel.h"
#include "config/load.h"
#include "io/checkpoint.h"
#include "probe/run_metrics.h"

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
  throw UserError("the run of this checkpoint is not known", checkpoint,
                  "the options in RUN/config.yaml are needed to repeat its steps", "name the run by --run RUN");
}

std::string folder_of_replay(const std::string& from, const std::string& run) {
  return !run.empty() ? run : is_checkpoint(from) ? run_of(from) : from;
}

}  // namespace

RecordedSteps::RecordedSteps(const std::string& from, const std::string& run) {
  if (run.empty() && !is_checkpoint(from) && !has_config(from)) return;  // refused where its options are read
  file_ = (fs::path(folder_of_replay(from, run)) / "metrics.jsonl").string();
  std::error_code error;
  if (!fs::is_regular_file(file_, error)) return;
  try {
    const RunMetrics metrics = read_run_metrics(file_);
    const std::vector<double> losses = metrics.column("loss"), rates = metrics.column("lr");
    for (size_t i = 0; i < metrics.step.size(); ++i)
      if (!std::isnan(losses[i])) steps_[static_cast<int64_t>(metrics.step[i])] = {losses[i], rates[i]};
  } catch (const UserError&) {  // a damaged record says nothing
  }
}

void RecordedSteps::hold(int64_t step, double loss, double rate, Log& log) {
  const auto was = steps_.find(step);
  if (reported_ || was == steps_.end()) return;
  const bool other_rate = !std::isnan(was->second.rate) && was->second.rate != rate;
  if (!other_rate && was->second.loss == loss) return;
  reported_ = true;
  log.warn("step {} is not the one that the run has made: loss {:.9g} and rate {:.9g}, and {} has {:.9g} and {:.9g}{}", step,
           loss, rate, file_, was->second.loss, was->second.rate,
           other_rate
               ? ". The options in its config.yaml are those of its last start: name by --run a folder with those of then"
               : ". The run had other options, data or a machine with other arithmetic then");
}

Config config_of_replay(const std::string& from, const std::string& run, int64_t threads) {
  const bool checkpoint = is_checkpoint(from);
  if (!checkpoint && !has_config(from))
    throw UserError("no checkpoint", from, "a replay starts from a checkpoint of a run, or from its beginning",
                    fs::exists(from) ? "name RUN/checkpoints/step_N or RUN" : missing_path_advice(from));
  const std::string folder = folder_of_replay(from, run);
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
