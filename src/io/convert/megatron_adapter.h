// Reads LoRA checkpoints of ModelLink: adapters without the base, in one torch file per tensor and pipeline rank.
// "lora_A" and "lora_B" follow the names of modules. Written as PEFT adapters, they fit the same base in any spelling.
// Source: ModelLink 1.0, modellink/model/lora_utils.py, tools/lora/merge_lora.py.
//   y = W x + lora_alpha / lora_r * B (A x)
// If a module's outputs are split over tensor ranks, B is split too and each rank has the whole A. If its inputs are
// split, A is split and each rank has the whole B.
#pragma once
#include <functional>
#include <string>

#include "io/convert/hf_folder.h"
#include "io/convert/weights.h"

namespace ravine {

inline constexpr const char* kAdapterFile = "adapter_model.safetensors";

// Reads a LoRA checkpoint of ModelLink: returns its tensors under PEFT's names, with adapter_config.json as `config`.
// `base_config` is the path of the base's config.json; "": config.json in `path`. A module that is joined here but
// separate in the family's files gives each part the same A and its rows of B. UserErrors: errors of open_megatron, a
// checkpoint without adapters, arguments without rank and alpha, shapes of another base, and modules that the base
// lacks. Tensor ranks that differ in a tensor that is not split are a UserError too.
Weights read_megatron_adapter(const std::string& path, const std::string& base_config);
// Reads a LoRA checkpoint of ModelLink as tensors under PEFT's names, for a base with this config.json; `where` is its
// name in messages.
Weights read_megatron_adapter(const std::string& path, const Json& base_config, const std::string& where);

// Writes a PEFT adapter into `folder`: adapter_config.json and the file of weights.
void write_adapter(TargetFolder& folder, const Weights& adapter, const std::vector<NamedElements>& tensors,
                   const std::function<void(int64_t)>& progress);

}  // namespace ravine
