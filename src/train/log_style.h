// log.style: who writes the lines of steps and the TensorBoard scalars. A style is a row of the table in log_style.cpp.
#pragma once
#include <memory>

#include "config/config.h"
#include "train/hooks.h"

namespace ravine {

std::unique_ptr<Hook> console_of_style(const LogOptions& options);
std::unique_ptr<Hook> tensorboard_of_style(const LogOptions& options);

}  // namespace ravine
