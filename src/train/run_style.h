// What of a run other programs' users see: the lines of steps, the TensorBoard scalars (log.style), the files of checkpoints
// (checkpoint.layout) and of results. Ravine's own are the defaults; the others are filled in above (styles/styles.h).
#pragma once
#include <functional>
#include <memory>

#include "runs/checkpoint_files.h"
#include "train/best_model.h"
#include "train/hooks.h"

namespace ravine {

using HookMaker = std::function<std::unique_ptr<Hook>(int64_t every)>;  // every: log.every

struct RunStyle {
  HookMaker console = console_hook, tensorboard = tensorboard_hook;
  std::shared_ptr<const CheckpointFiles> files;  // null: checkpoints of Ravine
  std::optional<BestModel> best;                 // none: the run ends with the weights of its last step
  int64_t valid_rows = 0;                        // of a validation; 0: as many as train.valid_batches has
  // Hooks of the first rank that write files of another program, behind all others.
  std::vector<std::function<std::unique_ptr<Hook>()>> more;
};

}  // namespace ravine
