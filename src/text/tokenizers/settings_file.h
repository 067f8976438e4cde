// The settings files of a tokenizer: tokenizer_config.json, special_tokens_map.json and others.
#pragma once
#include <string>
#include <string_view>

#include "base/json.h"

namespace ravine {

// Reads a JSON object of a folder; empty if there is no such file. `path` becomes the path of the file.
Json read_settings(const std::string& dir, const char* name, std::string& path);

// Reads special_tokens_map.json, whose keys take priority over `config` (tokenizer_config.json). Empty if `config` has
// an added_tokens_decoder, because Transformers 5 then does not read the file.
Json read_tokens_map(const std::string& dir, const Json& config, std::string& path);

// Returns tokenizer_class of tokenizer_config.json without "Fast"; "" if there is none. A value that is not a string is
// a UserError.
std::string tokenizer_class(const Json& config, const std::string& path);

// Returns the special token ("eos_token" ..) that the tokenizer_class has by default; null if it has none.
Json usual_token(const Json& config, const std::string& path, std::string_view key);

}  // namespace ravine
