// The flag --adapter of commands that run models: DIR, or NAME=DIR once for each of several adapters of one base model.
#pragma once
#include <string>
#include <vector>

#include "config/named_path.h"

namespace ravine {

// The folders that --model and --adapter name (runs/run_places.h).
struct MeantAdapters {
  std::string model;
  std::vector<NamedPath> adapters;  // one without a name, or any number with different names
};
MeantAdapters model_and_adapters_meant_by(const std::string& model, const std::vector<std::string>& given);

// For a command that runs one model: returns the folder of its adapter; "" if there is none. `command` is used in the
// message.
std::string one_adapter(const MeantAdapters& meant, const std::string& command);

}  // namespace ravine
