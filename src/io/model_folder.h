// Says what a path is that should have been a model folder or a checkpoint, and what to do about it.
#pragma once
#include <string>

namespace ravine {

// Returns if `folder` is a folder with a config.json, or, of --model, a Megatron checkpoint whose arguments say its model. Else a UserError that names `key` (the option or flag that gave it): a
// name on the Hugging Face hub, a run, a checkpoint of this or another program, an adapter, a file.
void check_model_folder(const std::string& folder, const std::string& key);

// Returns if `file` may be a model's config.json. Else a UserError that names model.config: a run's YAML, a folder, a text.
void check_model_config(const std::string& file);

// Returns if `folder` holds a manifest.json. Else a UserError: a run is told its newest checkpoint, a checkpoint of another
// program how to convert it.
void check_checkpoint_folder(const std::string& folder, const std::string& key);

}  // namespace ravine
