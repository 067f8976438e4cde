// The adapter that a run trains: what the options and a PEFT folder say of it.
#pragma once
#include <optional>

#include "config/config.h"
#include "model/adapters.h"

namespace ravine {

// Nothing where lora.rank is 0 and lora.path empty. With lora.path the settings are those of its adapter_config.json; an option
// that is given must agree with it, or is a UserError (targets: name the same modules; lora.dropout is the run's own). An
// adapter without weights to stand beside is a UserError, so are its options without one.
std::optional<LoraSettings> lora_of(const Config& config, const Model& base);

// The weights that an adapter stands beside: model.path, or the files of model.weights.
const std::string& base_of(const Config& config);

// Writes what lora.path gave into the options: config.yaml and checkpoints then say what was trained, and a resume finds out
// when the file says something else.
void keep_in_config(const LoraSettings& settings, Config& config);

// "adapters rank 8, alpha 16 on q_proj, v_proj: 1.2 M of 134 M parameters are trained, 4.7 MB".
std::string adapter_text(const LoraSettings& lora, const Model& model);

// What blocks of 4 bits keep of the base, "" where nothing is kept so.
std::string base_text(const Model& model);

}  // namespace ravine
