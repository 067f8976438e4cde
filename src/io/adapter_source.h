// An adapter opened for reading, in the form of PEFT's files, for any program that wrote it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "files/tensor_file.h"
#include "model/model.h"

namespace ravine {

// An adapter in the form of PEFT's files; the result of open_adapter.
struct AdapterSource {
  Json config;                                     // adapter_config.json
  std::string config_file;                         // the source of `config`, for messages
  std::vector<std::unique_ptr<TensorFile>> files;  // exactly one
  const TensorFile& file() const { return *files[0]; }
};

// Opens a PEFT folder, or a checkpoint of ModelLink's LoRA (io/convert/megatron_adapter.h). The layout of such a
// checkpoint follows from the config of `base`, which may have adapters or not. UserErrors: those thrown by
// check_adapter_folder and read_megatron_adapter.
AdapterSource open_adapter(const std::string& folder, const Model& base);

}  // namespace ravine
