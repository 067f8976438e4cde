#include "apps/program.h"

#include "apps/commands.h"
#include "apps/stop_signals.h"
#include "apps/streams.h"

namespace ravine {

int program(int argc, char** argv) {
  const HeldSignals held;
  prepare_streams();
  std::vector<Command> commands = {
      train_command(),      plan_command(),  stop_command(),      plot_command(),       generate_command(), chat_command(),
      serve_command(),      eval_command(),  tokenizer_command(), preprocess_command(), data_command(),     convert_command(),
      merge_lora_command(), trace_command(), dump_command(),      compare_command(),    curves_command(),   diff_command(),
      replay_command(),     bench_command(), check_command(),     bisect_command(),     config_command(),   info_command(),
  };
  commands.push_back(megatron_command(commands));
  commands.push_back(mindformers_command(commands));
  commands.push_back(trainer_command());
  commands.push_back(init_command(commands));
  // Pages and completion use the whole table, themselves included.
  std::vector<Command> with_man = commands;
  with_man.push_back(man_command(commands));
  commands.push_back(completion_command(with_man));
  commands.push_back(man_command(commands));
  return run_program(commands, {argv + 1, argv + argc});
}

}  // namespace ravine
