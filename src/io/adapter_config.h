// Conversion between PEFT's adapter_config.json and LoraSettings. Source: peft 0.21, tuners/lora/config.py.
#pragma once
#include <string>

#include "base/json.h"
#include "model/adapters.h"

namespace ravine {

// Returns the adapter settings in `config`, a PEFT adapter_config.json. `file` is its name in messages. A kind of
// adapter or a field that model/adapters.h does not implement (DoRA, biases, AdaLoRA, ...) is a UserError that names
// it.
LoraSettings settings_of(const Json& config, const std::string& file);

// Returns the adapter_config.json of an adapter. `base` becomes base_model_name_or_path, and `lora` has the settings as
// requested. `model` is with_adapters(.., lora).
Json adapter_config_of(const LoraSettings& lora, const Model& model, const std::string& base);

}  // namespace ravine
