// adapter_config.json of PEFT, as settings and back. Source: peft 0.21, tuners/lora/config.py.
#pragma once
#include <string>

#include "base/json.h"
#include "model/adapters.h"

namespace ravine {

// What the config says; `where` of it is `file`, which names it. A kind of adapter, or a field of LoRA, that the arithmetic of
// model/adapters.h does not have is a UserError that names it: DoRA, biases, AdaLoRA, ...
LoraSettings settings_of(const Json& config, const std::string& file);

// What adapter_config.json says of an adapter: `base` as base_model_name_or_path, `lora` as it was asked for. `model` is
// with_adapters(.., lora).
Json adapter_config_of(const LoraSettings& lora, const Model& model, const std::string& base);

}  // namespace ravine
