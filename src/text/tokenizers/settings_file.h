// The settings files of a tokenizer: tokenizer_config.json, special_tokens_map.json and others.
#pragma once
#include <string>
#include <string_view>

#include "base/json.h"

namespace ravine {

// Reads the JSON object in the file dir/name of a tokenizer; an empty object if there is no such file. path: receives
// the path of the file.
Json read_settings(const std::string& dir, const char* name, std::string& path);

// Reads special_tokens_map.json of a tokenizer's folder, whose keys take priority over `config` (the contents of
// tokenizer_config.json). The result is empty if `config` has an added_tokens_decoder, because Transformers 5 then does
// not read the file. path: receives the path of the file.
Json read_tokens_map(const std::string& dir, const Json& config, std::string& path);

// Returns tokenizer_class of tokenizer_config.json without "Fast"; "" if there is none. A value that is not a string is
// a UserError.
std::string tokenizer_class(const Json& config, const std::string& path);

// Returns the text of the special token `key` ("eos_token" ..) that the tokenizer_class in `config` has by default;
// null if it has none.
Json usual_token(const Json& config, const std::string& path, std::string_view key);

}  // namespace ravine
