#include "apps/check.h"

#include "apps/commands.h"

namespace ravine {

Command check_command() {
  std::vector<Command> actions;
  actions.push_back(check_step_command());
  actions.push_back(check_lr0_command());
  actions.push_back(check_baseline_command());
  actions.push_back(check_determinism_command());
  actions.push_back(check_layouts_command());
  return command_of({.name = "check",
                     .summary = "check with your own config that results are reproducible",
                     .example = "ravine check determinism --config run.yaml"},
                    "Machine", std::move(actions));
}

}  // namespace ravine
