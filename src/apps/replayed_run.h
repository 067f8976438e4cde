// A run of which steps are made again.
#pragma once
#include <string>

#include "config/config.h"

namespace ravine {

inline constexpr const char *kReplayFrom = "checkpoint of a run, RUN/checkpoints/step_N, or RUN: from its beginning",
                            *kReplayRun = "run whose options count; empty: the one in which the checkpoint lies";

// Its options, for Trainer::replay(); `run` may be empty. threads: what the user asked for, 0 if nothing. A UserError where
// `from` is none.
Config config_of_replay(const std::string& from, const std::string& run, int64_t threads);
int64_t step_before_replay(const std::string& from);  // of the checkpoint; from the beginning 0

}  // namespace ravine
