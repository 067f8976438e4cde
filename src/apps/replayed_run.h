// A run of which steps are made again.
#pragma once
#include <map>
#include <string>

#include "base/log.h"
#include "config/config.h"

namespace ravine {

inline constexpr const char *kReplayFrom = "checkpoint of a run, RUN/checkpoints/step_N, or RUN: from its beginning",
                            *kReplayRun = "run whose options count; empty: the one in which the checkpoint lies";

// Its options, for Trainer::replay(); `run` may be empty. threads: what the user asked for, 0 if nothing. A UserError where
// `from` is none.
Config config_of_replay(const std::string& from, const std::string& run, int64_t threads);
int64_t step_before_replay(const std::string& from);  // of the checkpoint; from the beginning 0

// The losses and rates that the run has recorded in its metrics.jsonl, against which steps are held that are made again.
class RecordedSteps {
 public:
  RecordedSteps(const std::string& from, const std::string& run);  // as of config_of_replay; a run without metrics has none
  // Warns once, of the first step whose loss or rate is another than the recorded one.
  void hold(int64_t step, double loss, double rate, Log& log);

 private:
  struct Step {
    double loss = 0, rate = 0;
  };
  std::string file_;
  std::map<int64_t, Step> steps_;
  bool said_ = false;
};

}  // namespace ravine
