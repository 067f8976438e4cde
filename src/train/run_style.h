// The style of a run's outputs: step lines and TensorBoard scalars (log.style), files of checkpoints
// (checkpoint.layout) and results. The defaults are Ravine's; styles/styles.h has the styles of other programs.
#pragma once
#include <functional>
#include <memory>

#include "runs/checkpoint_files.h"
#include "train/best_model.h"
#include "train/hooks.h"

namespace ravine {

using HookMaker = std::function<std::unique_ptr<Hook>(int64_t every)>;  // every: log.every

// The style of a run's outputs: log lines, TensorBoard, checkpoint format, and files for another program. Defaults are
// Ravine's.
struct RunStyle {
  HookMaker console = console_hook, tensorboard = tensorboard_hook;
  std::shared_ptr<const CheckpointFiles> files;  // null: Ravine's checkpoints
  std::optional<BestModel> best;                 // empty: the run ends with the weights of its last step
  bool first_line = false;                       // step 1 has a log line, whatever log.every is
  int64_t valid_rows = 0;                        // rows of a validation; 0: by train.valid_batches
  // Makers of further hooks, which write files of another program. Used on the first rank; a run calls these hooks
  // last.
  std::vector<std::function<std::unique_ptr<Hook>()>> more;
};

}  // namespace ravine
