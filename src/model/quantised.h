// Models whose weights another program keeps in fewer bits, as their config.json says: they are not read.
#pragma once
#include <optional>
#include <string>

#include "base/json.h"

namespace ravine {

struct Quantised {
  std::string key;   // of the config: "quantization_config", "quantization"
  std::string what;  // "weights in 4 bits by GPTQ"
  std::string fix;   // how its owner gets to a model that is read
};

// Nothing where the config says of no such weights. `where`: the config's file, or another place, for the commands in `fix`.
std::optional<Quantised> quantised(const Json& config, const std::string& where);

}  // namespace ravine
