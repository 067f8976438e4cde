// The files that a run by the Trainer's flags leaves beside Ravine's own.
#pragma once
#include <string>

namespace ravine {

struct TrainerOutputs {
  bool results = false;            // figures of the end as run_clm.py of Transformers has them (styles/trainer_results.h)
  bool names_best = false;         // trainer_state.json names the checkpoint whose validation is best
  bool loads_best = false;         // the model is that of this checkpoint
  bool greater_is_better = false;  // of its loss
  std::string logging_dir;         // of the Trainer's event files; "": the run's own folder
  std::string csv, event_files;    // folders of DeepSpeed's monitors (styles/deepspeed_monitors.h); "": none
};

}  // namespace ravine
