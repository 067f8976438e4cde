// DeepSpeed checkpoints (zero_checkpoint.h) as a source of conversions.
#pragma once
#include <string>

#include "io/convert/weights.h"

namespace ravine {

// `config` (null: none) is that of --model-config; else a config.json beside the checkpoint is taken. Moments are Adam's; frozen
// parameters have none.
Weights read_deepspeed(const std::string& path, const Json& config, const std::string& config_where,
                       StateKind kind = StateKind::weights);

}  // namespace ravine
