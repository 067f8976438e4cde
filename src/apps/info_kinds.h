// Output of `ravine info` for adapters, configs, files of a run and pictures.
#pragma once
#include <optional>
#include <string>

#include "base/json.h"

namespace ravine {

// Describes a file that is an adapter, a config, a file of a run or a picture; nothing for any other file. A damaged
// file is a UserError.
std::optional<Json> describe_file_kind(const std::string& path);
Json describe_json_file(const std::string& path);  // describes a JSON file that is no data, by its fields
std::optional<Json> describe_folder_kind(const std::string& path);

// Adds to `j` counts that follow from a config.json: "parameters" (tied weights once), "active_parameters" if fewer,
// and "cache_numbers_per_token". If no model can be made of it, "parameters_unknown" gives the reason.
void add_model_config(Json& j, const Json& config, const std::string& where);
// Adds to `j` the steps of the checkpoint of Transformers' Trainer at `path`, and how to resume from it.
void add_trainer_run(Json& j, const std::string& path);

// Adds to `j` the kind, size and special tokens of the tokenizer in a folder or file.
void add_tokenizer(Json& j, const std::string& path);

// Throws a UserError that says that the kind of `path` is unknown and lists the kinds of folders, or of files, that are
// described.
[[noreturn]] void unknown_kind(const std::string& path, bool folder);

}  // namespace ravine
