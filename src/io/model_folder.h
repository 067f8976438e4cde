// Checks paths that should be a model folder, a model config or a checkpoint; errors say what the path is and how to
// fix it.
#pragma once
#include <string>

namespace ravine {

// Checks that `folder` has a config.json. If `key` is --model, a Megatron checkpoint whose arguments describe its model
// is accepted too. Any other path is a UserError that names `key`, the option or flag that set it. Examples are a name
// on the Hugging Face hub, a run, a checkpoint, an adapter, and a file.
void check_model_folder(const std::string& folder, const std::string& key);

// Checks that `file`, the value of model.config, may be a model's config.json. A run's YAML, a folder or a text file is
// a UserError that names model.config.
void check_model_config(const std::string& file);

// Checks that `folder` is a checkpoint of Ravine (is_checkpoint). Else a UserError that names `key`, the option that
// set the folder: for a run it names the newest checkpoint, for another program's checkpoint how to convert it.
void check_checkpoint_folder(const std::string& folder, const std::string& key);

}  // namespace ravine
