// The settings for files that a run with the Trainer's flags writes in addition to Ravine's own.
#pragma once
#include <cstdint>
#include <string>

namespace ravine {

// The values of the section flops_profiler of a DeepSpeed config, for styles/flops_profile.h.
struct FlopsProfilerKeys {
  bool enabled = false;
  int64_t profile_step = 1;         // number of steps before the profiled step
  int64_t module_depth = -1;        // depth of the aggregated table; -1: all levels
  int64_t top_modules = 1;          // number of modules per depth
  bool detailed = true;             // print the tree of modules too
  double recompute_fwd_factor = 0;  // forward passes within a backward pass (recomputation)
  std::string output_file;          // "": the log
};

// The settings for files and log lines that a run with the Trainer's flags writes in addition to Ravine's own.
struct TrainerOutputs {
  bool results = false;            // write the results of run_clm.py at the end (styles/trainer_results.h)
  bool names_best = false;         // trainer_state.json names the checkpoint with the best validation
  bool loads_best = false;         // the run ends with the weights of the checkpoint with the best validation
  bool greater_is_better = false;  // a larger validation loss is better
  int64_t valid_rows = 0;          // --max_eval_samples: rows of a validation; 0: by train.valid_batches
  std::string logging_dir;         // folder of the Trainer's event files; "": the run's own
  bool wall_clock = false;         // wall_clock_breakdown: log the times of steps (styles/step_clock.h)
  FlopsProfilerKeys flops;
  bool first_line = false;         // log step 1 too, whatever log.every is
  bool bar = true;                 // show a progress bar on a terminal
  bool counts_tokens = false;      // trainer_state.json has the number of tokens so far
  bool tokens_per_second = false;  // the results have the tokens per second of a rank
  // DeepSpeed's checkpoints assign parameters to ranks in turn (io/convert/deepspeed_state.h).
  bool round_robin = false;
  int64_t sub_group = 1'000'000'000;  // sub_group_size of DeepSpeed's checkpoints with ZeRO 3, in elements
  std::string csv, event_files;       // folders of DeepSpeed's monitors (styles/deepspeed_monitors.h); "": off
};

}  // namespace ravine
