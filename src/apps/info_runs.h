// Output of `ravine info` for runs and their checkpoints.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"

namespace ravine {

Json describe_run(const std::string& path);
Json describe_checkpoints(const std::string& path);            // describes the folder RUN/checkpoints
Json describe_checkpoint(const std::string& path, bool list);  // describes one step_N; list: every tensor too

// Returns the paths of the run folders directly in `folder`; with `deeper` also those in its subfolders.
std::vector<std::string> runs_in(const std::string& folder, bool deeper);
Json describe_runs(const std::string& path,
                   const std::vector<std::string>& runs);  // describes a folder that contains these runs

}  // namespace ravine
