// Reads DeepSpeed checkpoints (zero_checkpoint.h) as the source of a conversion.
#pragma once
#include <string>

#include "io/convert/weights.h"

namespace ravine {

// Reads the weights, or the state that `kind` selects, of a DeepSpeed checkpoint. `config` (null: none) is the config
// of --model-config; else a config.json next to the checkpoint is used. Moments are Adam's; frozen parameters have
// none.
Weights read_deepspeed(const std::string& path, const Json& config, const std::string& config_where,
                       StateKind kind = StateKind::weights);

}  // namespace ravine
