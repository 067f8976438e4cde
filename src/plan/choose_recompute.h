// Resolves train.recompute=auto.
#pragma once
#include <functional>

#include "config/config.h"

namespace ravine {

// A function that returns the bytes of memory that a run with this config needs, on the rank that needs most. The
// result is the same on all ranks.
using BytesNeeded = std::function<int64_t(const Config&)>;

// Replaces train.recompute=auto by the first of none, cheap and full whose memory fits train.memory_mb (MiB). A
// UserError if full does not fit. `needed`: returns the bytes for a config. All three values compute the same bits.
void choose_recompute(Config& config, const BytesNeeded& needed);

}  // namespace ravine
