// Resolves train.recompute=auto.
#pragma once
#include <functional>

#include "config/config.h"

namespace ravine {

// Returns the bytes that a rank needs with this config, for the rank that needs most. The same on all ranks.
using BytesNeeded = std::function<int64_t(const Config&)>;

// Replaces train.recompute=auto by the first of none, cheap and full that fits train.memory_mb (MiB). A UserError if
// full does not fit. All choices give the same bits.
void choose_recompute(Config& config, const BytesNeeded& needed);

}  // namespace ravine
