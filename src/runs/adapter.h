// The adapter that a run trains, from the options and a PEFT folder.
#pragma once
#include <optional>

#include "config/config.h"
#include "model/adapters.h"

namespace ravine {

// Returns the settings of the adapter; empty if lora.rank is 0 and lora.path is empty. With lora.path they are those in
// its adapter_config.json. A set option that differs is a UserError, but targets may name the same modules otherwise,
// and lora.dropout is used. An adapter without base weights is a UserError, as are options of an adapter without an
// adapter.
std::optional<LoraSettings> lora_of(const Config& config, const Model& base);

// Returns the path of the base weights of an adapter: model.path, or model.weights.
const std::string& base_of(const Config& config);

// Writes the settings of lora.path into the options. So config.yaml and checkpoints record them, and a resumed run
// detects a change of the file.
void keep_in_config(const LoraSettings& settings, Config& config);

// Returns "rank 8, alpha 16 on q_proj, v_proj: 1.2M of 134M parameters are trained, 4.7 MB in a file".
std::string adapter_text(const LoraSettings& lora, const Model& model);

// Returns a text on the size of the base in blocks of 4 bits; "" if no parameter is in blocks.
std::string base_text(const Model& model);

}  // namespace ravine
