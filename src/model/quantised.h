// Recognises models with quantised weights from their config.json. Ravine does not read such weights.
#pragma once
#include <optional>
#include <string>

#include "base/json.h"

namespace ravine {

struct Quantised {
  std::string key;   // field of the config: "quantization_config", "quantization"
  std::string what;  // "weights in 4 bits by GPTQ"
  std::string fix;   // advice for a model that Ravine can read
};

// Checks if a config.json names quantised weights, and returns their kind; empty if it names none. `where`: the
// config's file, or another place; used in the commands of `fix`.
std::optional<Quantised> quantised(const Json& config, const std::string& where);

}  // namespace ravine
