// A run whose steps are repeated.
#pragma once
#include <map>
#include <string>

#include "base/log.h"
#include "config/config.h"

namespace ravine {

inline constexpr const char *kReplayFrom =
                                "checkpoint to replay from, RUN/checkpoints/step_N; RUN: from the beginning of the run",
                            *kReplayRun = "run whose options are used; empty: the run that contains the checkpoint";

// Returns the options for Trainer::replay() of the steps after `from`, which is a checkpoint or a run folder (then from
// its beginning). `run` is the run whose options are used; "": the run that contains `from`. `threads` replaces
// train.threads if it is above 0. A UserError if `from` is neither a checkpoint nor a run.
Config config_of_replay(const std::string& from, const std::string& run, int64_t threads);
int64_t step_before_replay(const std::string& from);  // step of the checkpoint `from`; 0 for a run folder

// The losses and learning rates in the metrics.jsonl of a run. Repeated steps are compared with them.
class RecordedSteps {
 public:
  // from, run: as in config_of_replay. A run without metrics has no recorded steps.
  RecordedSteps(const std::string& from, const std::string& run);
  // Compares a repeated step with the record. Warns once, at the first step with another loss or learning rate.
  void hold(int64_t step, double loss, double rate, Log& log);

 private:
  struct Step {
    double loss = 0, rate = 0;
  };
  std::string file_;
  std::map<int64_t, Step> steps_;
  bool reported_ = false;
};

}  // namespace ravine
