// DeepSpeed ZeRO checkpoints (stages 0 to 3) as full weights: the f32 masters, put together as upstream's zero_to_fp32 does,
// bit for bit. Only tensors and plain values are read. Source: deepspeed/utils/zero_to_fp32.py (0.13 to 0.19).
#pragma once
#include <string>

#include "io/convert/weights.h"

namespace ravine {

// `path`: the folder with the file `latest`, or the tag's folder. Missing or surplus ranks, two steps, and sizes that do not
// add up are UserErrors. `config` (null: none) is that of --model-config; else a config.json beside the checkpoint is taken.
// Moments lie as the masters do; frozen parameters have none.
Weights read_deepspeed(const std::string& path, const Json& config, const std::string& config_where,
                       StateKind kind = StateKind::weights);

}  // namespace ravine
