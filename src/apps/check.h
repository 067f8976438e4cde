// The functions that return the actions of `ravine check`, one file each. check.cpp has the table.
#pragma once
#include "apps/command.h"

namespace ravine {

// Throws a UserError before the work begins if the file `path` could not be written at its end: it exists, unless
// `overwrite`, or its folder is missing. "": no file.
void check_output_file(const std::string& path, bool overwrite);

Command check_baseline_command();
Command check_config_command();
Command check_data_command();
Command check_determinism_command();
Command check_layouts_command();
Command check_lr0_command();
Command check_shrink_command();
Command check_step_command();

}  // namespace ravine
