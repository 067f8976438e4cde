// checkpoint.layout=megatron: train.output/iter_0000010/mp_rank_TT[_PPP] and latest_checkpointed_iteration.txt, as a run of Megatron
// leaves them (io/convert/megatron_state.h), in the place of train.output/checkpoints. With parallel.zero=1 states lie in
// distrib_optim.pt, as --use-distributed-optimizer has them.
//
// A run goes on from the folder that checkpoint.resume names, DIR or DIR/iter_0000010, or with `auto` from the iteration that the
// tracker file of train.output names, whoever wrote it, of any number of ranks. An iteration that a run would write and that is not
// its own is never replaced: such a run is refused.
#pragma once
#include <memory>
#include <string>

#include "runs/checkpoint_files.h"
#include "runs/opened_run.h"

namespace ravine {

std::shared_ptr<const CheckpointFiles> megatron_files();

// Why Megatron's files cannot hold the checkpoints of a run with these options, in a sentence without a full stop; "" where they
// can, or its model cannot be opened.
std::string beyond_megatron_files(const Config& config);

// What a folder of Megatron's checkpoints, or a run of ours in our own form, says of its options: {"optimizer.lr": 0.001, ..}, as
// io/convert/held_options.h has them; an empty object where it says nothing.
Json options_in_checkpoints(const std::string& folder, int64_t global_batch);

}  // namespace ravine
