// The functions that return the commands, one file each. program.cpp has the table.
#pragma once
#include "apps/command.h"

namespace ravine {

Command train_command();
Command trace_command();
Command generate_command();
Command chat_command();
Command serve_command();
Command eval_command();
Command tokenizer_command();
Command data_command();
Command data_index_command();  // actions of `data`
Command data_merge_command();
Command preprocess_command();
Command convert_command();
Command trainer_command();
Command merge_lora_command();  // in convert.cpp
Command compare_command();
Command curves_command();
Command diff_command();
Command dump_command();
Command replay_command();
Command plan_command();
Command bench_command();
Command config_command();
Command info_command();
Command bisect_command();
Command check_command();
Command stop_command();
Command plot_command();
Command mindformers_command(const std::vector<Command>& others);
Command megatron_command(const std::vector<Command>& others);    // programs of its scripts lead to commands of `others`
Command init_command(const std::vector<Command>& others);        // the demo text is the manual of `others`
Command man_command(const std::vector<Command>& others);         // pages of `others` and itself
Command completion_command(const std::vector<Command>& others);  // completes `others` and itself

}  // namespace ravine
