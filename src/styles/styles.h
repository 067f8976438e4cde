// The formats of log.style and checkpoint.layout, one table row each in styles.cpp. No lower room depends on a format.
#pragma once
#include "config/config.h"
#include "train/run_style.h"

namespace ravine {

// Returns the console and TensorBoard hooks of log.style and the checkpoint files of checkpoint.layout.
RunStyle style_of(const Config& config);

}  // namespace ravine
