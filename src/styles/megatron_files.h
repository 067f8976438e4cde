// The checkpoints of checkpoint.layout=megatron: the files that Megatron writes (io/convert/megatron_state.h),
// train.output/iter_0000010/mp_rank_TT[_PPP] and latest_checkpointed_iteration.txt. They replace
// train.output/checkpoints. With parallel.zero=1 the optimizer states are in distrib_optim.pt, as with
// --use-distributed-optimizer.
//
// A run resumes from the folder in checkpoint.resume: DIR or DIR/iter_0000010. With `auto` it resumes from the
// iteration in the tracker file of train.output, which Ravine or Megatron may have written with any number of ranks. A
// run that would replace an iteration of another origin is refused.
#pragma once
#include <memory>
#include <string>

#include "runs/checkpoint_files.h"
#include "runs/opened_run.h"

namespace ravine {

std::shared_ptr<const CheckpointFiles> megatron_files();

// Returns why Megatron's files cannot store the checkpoints of a run with these options: a sentence without a full
// stop. Returns "" if they can, or if the model cannot be opened.
std::string beyond_megatron_files(const Config& config);

// Returns the options that are stored in a folder of Megatron's checkpoints or of a run with Ravine's checkpoints:
// {"optimizer.lr": 0.001, ..}, as in io/convert/held_options.h. Returns an empty object if no options can be read.
Json options_in_checkpoints(const std::string& folder, int64_t global_batch);

}  // namespace ravine
