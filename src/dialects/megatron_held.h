// Compares the network of the flags with the network of the files in --load or --save.
#pragma once
#include <string>

#include "dialects/dialect.h"
#include "dialects/megatron_job.h"

namespace ravine {

// The role of loaded files. model: the network of the files is used. weights: the flags describe the network.
enum class LoadedAs : uint8_t { model, weights };

// The reason of flags of the network for programs that run a model.
inline constexpr const char* kModelSaysIt = "the config.json of the model says it";

// Compares the given flags with the files in `folder`. Other sizes are refused, as by check_checkpoint_args of Megatron
// (megatron/training/checkpointing.py). For a model every flag is refused that its network would override. For weights
// the flags set numbers that change no size, like --rotary-base, as in Megatron; a notice names them. With
// --use-checkpoint-args the network of a model is used, and for weights such numbers are refused.
void hold_megatron_network(Translation& t, const MegatronJob& job, const std::string& folder, LoadedAs as);

}  // namespace ravine
