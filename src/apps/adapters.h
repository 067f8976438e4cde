// The flag --adapter of commands that run models: DIR, or NAME=DIR once for each of several adapters of one base model.
#pragma once
#include <string>
#include <vector>

#include "config/named_path.h"

namespace ravine {

// The folders of the model and of its adapters, by the flags --model and --adapter; the result of
// resolve_model_and_adapters.
struct ResolvedAdapters {
  std::string model;
  std::vector<NamedPath> adapters;  // one adapter without a name, or any number of adapters with different names
};
ResolvedAdapters resolve_model_and_adapters(const std::string& model, const std::vector<std::string>& given);

// Returns the folder of the adapter, for a command that runs one model; "" if there is none. Several adapters are a
// UserError that names `command`.
std::string one_adapter(const ResolvedAdapters& resolved, const std::string& command);

}  // namespace ravine
