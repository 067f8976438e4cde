// Conversion between YAML and JSON values.
#pragma once
#include <string>

#include "base/json.h"
#include "config/yaml.h"

namespace ravine {

// Returns a YAML value as JSON. Integers beyond 64 bits and numbers with a point are floats; .inf and .nan are texts.
Json json_of(const YamlNode& value);
std::string flow_yaml(const Json& value);  // returns YAML on one line: {name: [1, 2.0], other: text}

}  // namespace ravine
