// Runs of a config that write nothing, for checks that need a curve: with weights that stay, or with other roundings.
#pragma once
#include <optional>
#include <string>

#include "comm/world.h"
#include "config/config.h"
#include "kernels/backend.h"
#include "probe/curve_file.h"

namespace ravine {

// A way to run a config with other roundings. seed: moves each parameter by a unit in the last place, up or down by
// this seed; 0: none is moved. reorder: attention, loss head and the joined products run unfused, so that they sum in
// another order.
struct OtherRoundings {
  uint64_t seed = 0;
  bool reorder = false;
  std::string name() const;
};

// Returns the config without updates of the weights: SGD at a rate of 0. The data and its order stay.
Config without_updates(Config config);

// Runs the first `steps` steps of a config, from its beginning, and returns its curve on rank 0. Nothing is written. A
// `steps` beyond train.steps is a UserError.
TrainingCurve repeat_run(const Config& config, Backend backend, World* world, int64_t steps, const OtherRoundings& way = {});

}  // namespace ravine
