// Adapters in the form of the PEFT library: adapter_config.json and adapter_model.safetensors or adapter_model.bin.
// Source: peft/utils/save_and_load.py, peft/tuners/lora/config.py.
#pragma once
#include <optional>
#include <string>

#include "base/json.h"

namespace ravine {

struct AdapterFolder {
  std::string config_file, weights_file;  // paths; "": the folder lacks it
};

// Nothing if the folder holds no adapter, or the weights of a whole model beside one.
std::optional<AdapterFolder> find_adapter(const std::string& folder);

// Its adapter_config.json; an empty object if it has none. A file that holds no object is a UserError.
Json adapter_config(const AdapterFolder& adapter);

// Where models are read: a UserError if `folder` is an adapter's, which names its base and says how the two become a model.
// `key` is the option or flag that gave it.
void refuse_adapter(const std::string& folder, const std::string& key);

}  // namespace ravine
