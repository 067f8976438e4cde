// --adapter of commands that run models: DIR, or NAME=DIR once for each of several that one base serves.
#pragma once
#include <string>
#include <vector>

#include "config/named_path.h"

namespace ravine {

// What --model and --adapter stand for (runs/run_places.h).
struct MeantAdapters {
  std::string model;
  std::vector<NamedPath> adapters;  // one without a name, or any number with names, all different
};
MeantAdapters model_and_adapters_meant_by(const std::string& model, const std::vector<std::string>& given);

// Of a command that runs one model: the folder of its one adapter; "": none. `command`: as people type it.
std::string one_adapter(const MeantAdapters& meant, const std::string& command);

}  // namespace ravine
