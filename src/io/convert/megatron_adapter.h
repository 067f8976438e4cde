// Checkpoints of LoRA that ModelLink writes: the adapters alone, one torch file per tensor and pipeline rank as of a model,
// with "lora_A" and "lora_B" behind the names of modules. As an adapter of PEFT they stand beside the same base in any
// spelling. Source: ModelLink 1.0, modellink/model/lora_utils.py, tools/lora/merge_lora.py: y = W x + lora_alpha / lora_r * B
// (A x); of a module whose outputs are divided over tensor ranks B is too, and A whole on each; where inputs are divided A is,
// and B whole.
#pragma once
#include <functional>
#include <string>

#include "io/convert/hf_folder.h"
#include "io/convert/weights.h"

namespace ravine {

inline constexpr const char* kAdapterFile = "adapter_model.safetensors";

// Tensors by PEFT's names, with adapter_config.json as `config`. `base_config`: config.json of the base; "": one that lies in
// `path`. Modules that are joined here and apart in the family's files get the same A and their rows of B. UserErrors: what
// open_megatron refuses, a checkpoint without adapters, arguments that do not say rank and alpha, shapes of another base, what
// the base has no module for, and tensor ranks that hold different values of what is not divided.
Weights read_megatron_adapter(const std::string& path, const std::string& base_config);
// The same beside a base whose config is this; `where`: what messages call it.
Weights read_megatron_adapter(const std::string& path, const Json& base_config, const std::string& where);

// adapter_config.json and the file of weights.
void write_adapter(TargetFolder& folder, const Weights& adapter, const std::vector<NamedElements>& tensors,
                   const std::function<void(int64_t)>& progress);

}  // namespace ravine
