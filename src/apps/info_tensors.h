// Output of `ravine info` for tensors in files.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "files/safetensors.h"

namespace ravine {

// Adds number, bytes and types of the tensors in a file or folder to `j`; with `list` every tensor. `weights` is the
// prefix of the names of parameters, if there are other tensors too.
void add_tensors(Json& j, const std::string& path, bool list, std::string_view weights = {});

bool has_tensors(const std::string& folder);

// Returns the kind of a safetensors file from its metadata, if Ravine wrote it and it has no weights; else "".
std::string kind_of_tensors(const Metadata& metadata);

// Describes a folder of tensor files that are no parts of one model: traces, batches, models of torch.save. Each file
// is named.
std::optional<Json> files_side_by_side(const std::string& path);

}  // namespace ravine
