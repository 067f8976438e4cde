// The adapter that a run trains, from the options and a PEFT folder.
#pragma once
#include <optional>

#include "config/config.h"
#include "model/adapters.h"

namespace ravine {

// Returns the settings of the adapter (LoRA) that a run trains, from the options lora.*; empty if lora.rank is 0 and
// lora.path is empty. With lora.path the settings are those in its adapter_config.json. A set option that differs from
// this file is a UserError. Exceptions: lora.targets may name the same modules in another way, and lora.dropout is
// used. An adapter without base weights is a UserError. Options of an adapter without an adapter are a UserError, too.
std::optional<LoraSettings> lora_of(const Config& config, const Model& base);

// Returns the path of the base weights of an adapter: model.path if it is set, else model.weights.
const std::string& base_of(const Config& config);

// Sets the options lora.* in `config` to the settings of the adapter in lora.path. So config.yaml and checkpoints
// record them, and a resumed run detects a change of the adapter's file.
void keep_in_config(const LoraSettings& settings, Config& config);

// Returns a text on an adapter: "rank 8, alpha 16 on q_proj, v_proj: 1.2M of 134M parameters are trained, 4.7 MB in a
// file".
std::string adapter_text(const LoraSettings& lora, const Model& model);

// Returns a text on the memory of the base weights that are stored in blocks of 4 bits (lora.base); "" if no parameter
// is in blocks.
std::string base_text(const Model& model);

}  // namespace ravine
