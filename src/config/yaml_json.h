// YAML values as JSON ones, and back as YAML on one line.
#pragma once
#include <string>

#include "base/json.h"
#include "config/yaml.h"

namespace ravine {

Json json_of(const YamlNode& value);  // numbers beyond 64 bits and numbers with a point are floats; .inf and .nan are texts
std::string flow_yaml(const Json& value);  // reads back exactly: {name: [1, 2.0], other: text}

}  // namespace ravine
