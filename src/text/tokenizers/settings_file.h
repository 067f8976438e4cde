// The settings files beside a tokenizer: tokenizer_config.json, special_tokens_map.json and the like.
#pragma once
#include <string>
#include <string_view>

#include "base/json.h"

namespace ravine {

// A JSON object of a folder; empty if there is no such file. `path` becomes the file's path.
Json read_settings(const std::string& dir, const char* name, std::string& path);

// special_tokens_map.json, whose keys win over those of `config` (tokenizer_config.json); empty beside an added_tokens_decoder,
// where Transformers 5 does not read it.
Json read_tokens_map(const std::string& dir, const Json& config, std::string& path);

// tokenizer_class of tokenizer_config.json without "Fast"; "" if there is none. Anything but a string is a UserError.
std::string tokenizer_class(const Json& config, const std::string& path);

// The special token ("eos_token" ..) of the tokenizer_class that no file needs to name; null if the class has none.
Json usual_token(const Json& config, const std::string& path, std::string_view key);

}  // namespace ravine
