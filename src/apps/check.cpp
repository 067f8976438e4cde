#include "apps/check.h"

#include <filesystem>

#include "apps/commands.h"
#include "base/error.h"
#include "files/atomic.h"

namespace ravine {

void check_output_file(const std::string& path, bool overwrite) {
  if (path.empty()) return;
  refuse_existing_file(path, overwrite);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty() && !std::filesystem::is_directory(folder, error))
    throw UserError("no such folder", folder.string(), "the folder of a file that is written must exist",
                    "make it, or choose another name");
}

Command check_command() {
  std::vector<Command> actions;
  actions.push_back(check_baseline_command());
  actions.push_back(check_config_command());
  actions.push_back(check_data_command());
  actions.push_back(check_determinism_command());
  actions.push_back(check_layouts_command());
  actions.push_back(check_lr0_command());
  actions.push_back(check_shrink_command());
  actions.push_back(check_step_command());
  return command_of(
      {.name = "check",
       .summary = "check a training: its config and data against another program's, its results against themselves",
       .example = "ravine check config run.yaml pretrain_llama.sh"},
      "Machine", std::move(actions));
}

}  // namespace ravine
