// Adapter folders of the PEFT library: adapter_config.json and adapter_model.safetensors or adapter_model.bin. Source:
// peft/utils/save_and_load.py, peft/tuners/lora/config.py.
#pragma once
#include <optional>
#include <string>

#include "base/json.h"

namespace ravine {

// The files of an adapter; the result of find_adapter.
struct AdapterFolder {
  std::string config_file, weights_file;  // paths; "" if the folder lacks the file
};

// Returns the files of the adapter in a folder; nothing if there are none, or if the folder also holds the weights of a
// whole model.
std::optional<AdapterFolder> find_adapter(const std::string& folder);

// Returns the adapter's adapter_config.json; an empty object if it has none. A file without a JSON object is a
// UserError.
Json adapter_config(const AdapterFolder& adapter);

// Checks that `folder` holds an adapter with config and weights, or is a Megatron checkpoint (possibly one of
// ModelLink's LoRA). Any other path is a UserError that names `key`, the option or flag that set it. Examples are a
// missing path, a file, a model, and an adapter without config or weights.
void check_adapter_folder(const std::string& folder, const std::string& key);

// The paths of tokenizer, chat template and generation config for a model with an adapter; the result of chat_paths.
struct ChatPaths {
  std::string tokenizer;      // folder or file
  std::string chat_template;  // file or folder, as in data.chat_template; "": the template of the tokenizer
  std::string generation;     // folder of generation_config.json
};
// Returns the paths of tokenizer, chat template and generation config for the model in `folder` (or for a tokenizer
// file) with the adapter in `adapter` ("": none). The adapter's files are preferred.
ChatPaths chat_paths(const std::string& folder, const std::string& adapter);

// Throws a UserError if `folder` is an adapter and not a model; called by readers of models. The message names the
// adapter's base and how to merge the two. `key` is the option or flag that set the folder.
void refuse_adapter(const std::string& folder, const std::string& key);

}  // namespace ravine
