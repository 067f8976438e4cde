// What `ravine info` says about what is neither weights nor data: adapters, configs, what a run writes, pictures.
#pragma once
#include <optional>
#include <string>

#include "base/json.h"

namespace ravine {

// Nothing if the path names none of these kinds. A damaged file is a UserError.
std::optional<Json> describe_file_kind(const std::string& path);
Json describe_json_file(const std::string& path);  // one that is no data; what it is of is told by its fields
std::optional<Json> describe_folder_kind(const std::string& path);

// Adds what a config.json says of a model: "parameters", tied ones once, or why they are not counted.
void add_model_config(Json& j, const Json& config, const std::string& where);
// Of a checkpoint of the Trainer: the steps it has made, and how a run goes on from it.
void add_trainer_run(Json& j, const std::string& path);

// Adds kind, size and special tokens of the tokenizer in a folder or file.
void add_tokenizer(Json& j, const std::string& path);

// A UserError that names every kind that is known.
[[noreturn]] void unknown_kind(const std::string& path, bool folder);

}  // namespace ravine
