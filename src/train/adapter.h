// The adapter that a run trains: what the options and a PEFT folder say of it.
#pragma once
#include <optional>

#include "config/config.h"
#include "model/adapters.h"

namespace ravine {

// Nothing where lora.rank is 0 and lora.path empty. With lora.path the settings are those of its adapter_config.json; an option
// that is not at its default must agree with it, or is a UserError. An adapter without model.path is a UserError, so are its
// options without one.
std::optional<LoraSettings> lora_of(const Config& config, const Model& base);

// "adapters rank 8, alpha 16 on q_proj, v_proj: 1.2 M of 134 M parameters are trained, 4.7 MB".
std::string adapter_text(const LoraSettings& lora, const Model& model);

}  // namespace ravine
