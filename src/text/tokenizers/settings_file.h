// The settings files beside a tokenizer: tokenizer_config.json, special_tokens_map.json and the like.
#pragma once
#include <string>

#include "base/json.h"

namespace ravine {

// A JSON object of a folder; empty if there is no such file. `path` becomes the file's path.
Json read_settings(const std::string& dir, const char* name, std::string& path);

}  // namespace ravine
