// The network of the flags held against that of the files that --load or --save names.
#pragma once
#include <string>

#include "dialects/dialect.h"
#include "dialects/megatron_job.h"

namespace ravine {

// How files are taken: as a model, whose own network counts; or as weights of the network that the flags describe.
enum class LoadedAs : uint8_t { model, weights };

// Flags that are given and that the files contradict: sizes are refused, as by check_checkpoint_args of Megatron
// (megatron/training/checkpointing.py). Of a model so is all that its own network would override in silence. Of weights numbers
// that change no size, like --rotary-base, count as the flags have them, in Megatron too, and a notice says so. With
// --use-checkpoint-args the model's own count, and of weights such numbers are refused.
void hold_megatron_network(Translation& t, const MegatronJob& job, const std::string& folder, LoadedAs as);

}  // namespace ravine
