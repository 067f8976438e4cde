// The files that a run by the Trainer's flags leaves beside Ravine's own.
#pragma once
#include <cstdint>
#include <string>

namespace ravine {

// flops_profiler of a DeepSpeed config (styles/flops_profile.h).
struct FlopsProfilerKeys {
  bool enabled = false;
  int64_t profile_step = 1;         // steps that lie behind when the profile is made
  int64_t module_depth = -1;        // of the aggregated table; -1: as deep as modules go
  int64_t top_modules = 1;          // named at each depth
  bool detailed = true;             // the tree of modules too
  double recompute_fwd_factor = 0;  // forward passes within a backward pass
  std::string output_file;          // "": the log
};

struct TrainerOutputs {
  bool results = false;            // figures of the end as run_clm.py of Transformers has them (styles/trainer_results.h)
  bool names_best = false;         // trainer_state.json names the checkpoint whose validation is best
  bool loads_best = false;         // the model is that of this checkpoint
  bool greater_is_better = false;  // of its loss
  int64_t valid_rows = 0;          // --max_eval_samples: rows of a validation; 0: as train.valid_batches has it
  std::string logging_dir;         // of the Trainer's event files; "": the run's own folder
  bool wall_clock = false;         // wall_clock_breakdown: lines of times (styles/step_clock.h)
  FlopsProfilerKeys flops;
  std::string csv, event_files;  // folders of DeepSpeed's monitors (styles/deepspeed_monitors.h); "": none
};

}  // namespace ravine
