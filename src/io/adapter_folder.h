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

// Returns if `folder` holds an adapter, its config and its weights, or is a Megatron checkpoint, which may be one of ModelLink's
// LoRA. Else a UserError that names `key`, the option or flag that
// gave it: a path that is not there, a file, a model, a half of an adapter.
void check_adapter_folder(const std::string& folder, const std::string& key);

// Where what people talk to a model through lies, where `adapter` ("": none) stands beside it: its tokenizer and chat template
// count before those of `folder`, the model's, or file of a tokenizer.
struct TalkPlaces {
  std::string tokenizer;      // folder or file
  std::string chat_template;  // as data.chat_template names one: a file or folder; "": that of the tokenizer
  std::string generation;     // folder of generation_config.json
};
TalkPlaces talk_places(const std::string& folder, const std::string& adapter);

// Where models are read: a UserError if `folder` is an adapter's, which names its base and says how the two become a model.
// `key` is the option or flag that gave it.
void refuse_adapter(const std::string& folder, const std::string& key);

}  // namespace ravine
