#include <filesystem>

#include "apps/commands.h"
#include "base/error.h"
#include "base/log.h"
#include "files/folder_lock.h"
#include "runs/run_folder.h"
#include "runs/run_paths.h"
#include "runs/stop_request.h"

namespace ravine {
namespace {

struct StopFlags {
  std::string output;
  template <class V>
  void each(V&& v) {
    v("output-dir", output, "folder of the run (train.output)", positional() & required() & metavar("DIR") & reads());
  }
};

int run_stop(StopFlags& flags, Config&) {
  flags.output = resolve_run(flags.output);
  // A run locks its folder long before it writes config.yaml, which happens after weights and checkpoint are read.
  if (!is_run(flags.output) && !std::filesystem::exists(std::filesystem::path(flags.output) / "config.yaml"))
    throw UserError("no run in this folder", flags.output,
                    "it must be the train.output of a run, or a folder that `ravine init` made", "check the path");
  const auto holder = folder_holder(flags.output);
  if (!holder)
    throw UserError(
        "no run is alive in this folder", flags.output, "its run has ended, or is not at its first step yet",
        "nothing needs to be stopped; if it was killed, the command that started it, with checkpoint.resume=auto, resumes from its newest checkpoint");
  request_stop(flags.output);
  print_stderr(fmt::format("asked the run in {} ({}) to finish its step, save and stop", flags.output, *holder));
  return 0;
}

}  // namespace

Command stop_command() {
  return command<StopFlags>(
      {.name = "stop", .summary = "ask a run to finish its step, save and stop", .example = "ravine stop runs/book"}, "Train",
      run_stop);
}

}  // namespace ravine
