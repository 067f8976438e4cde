// train.recompute=auto.
#pragma once
#include <functional>

#include "config/config.h"

namespace ravine {

// Bytes that a rank needs with this config, of the rank that needs most: the same answer on all ranks.
using BytesNeeded = std::function<int64_t(const Config&)>;

// Where train.recompute is auto, it becomes what recomputes least and keeps within train.memory_mb (MiB): none, cheap or full.
// A UserError if full needs more. Whatever is chosen, the bits of the run are the same.
void choose_recompute(Config& config, const BytesNeeded& needed);

}  // namespace ravine
