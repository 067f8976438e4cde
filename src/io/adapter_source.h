// An adapter opened for reading, as PEFT's files have it, whatever wrote it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "files/tensor_file.h"
#include "model/model.h"

namespace ravine {

struct AdapterSource {
  Json config;                                     // adapter_config.json
  std::string config_file;                         // that it came from, for messages
  std::vector<std::unique_ptr<TensorFile>> files;  // one
  const TensorFile& file() const { return *files[0]; }
};

// Of a PEFT folder, or of a checkpoint of ModelLink's LoRA (io/convert/megatron_adapter.h), whose layout follows from the config
// of `base`, with or without adapters. UserErrors: what check_adapter_folder and read_megatron_adapter refuse.
AdapterSource open_adapter(const std::string& folder, const Model& base);

}  // namespace ravine
