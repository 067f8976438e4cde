// The forms that log.style and checkpoint.layout name, a row each in styles.cpp. No room below knows one of them.
#pragma once
#include "config/config.h"
#include "train/run_style.h"

namespace ravine {

RunStyle style_of(const Config& config);

}  // namespace ravine
