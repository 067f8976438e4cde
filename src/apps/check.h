// The functions that return the actions of `ravine check`, one file each. check.cpp has the table.
#pragma once
#include "apps/command.h"

namespace ravine {

Command check_step_command();
Command check_lr0_command();
Command check_baseline_command();
Command check_determinism_command();
Command check_layouts_command();

}  // namespace ravine
