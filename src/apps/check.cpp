#include "apps/check.h"

#include "apps/commands.h"

namespace ravine {

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
