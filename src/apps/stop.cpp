#include <filesystem>

#include "apps/commands.h"
#include "base/error.h"
#include "train/stop.h"

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
  if (!std::filesystem::exists(std::filesystem::path(flags.output) / "config.yaml"))
    throw UserError("no run in this folder", flags.output, "it must be the train.output of a run", "check the path");
  request_stop(flags.output);
  std::fprintf(stderr, "asked the run in %s to finish its step, save and stop\n", flags.output.c_str());
  return 0;
}

}  // namespace

Command stop_command() {
  return command<StopFlags>({.name = "stop", .summary = "ask a run to finish its step, save and stop", .example = "ravine stop runs/book"}, "Train",
                            run_stop);
}

}  // namespace ravine
