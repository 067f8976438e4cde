// What `ravine info` says about tensors in files.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "files/safetensors.h"

namespace ravine {

// Adds count, bytes and types of the tensors in a file or folder to `j`; with `list` each of them. weights: how the names of
// those begin that are parameters, where there are others too.
void add_tensors(Json& j, const std::string& path, bool list, std::string_view weights = {});

bool has_tensors(const std::string& folder);

// What a safetensors file is by its metadata, if this program made it as something else than weights; else "".
std::string kind_of_tensors(const Metadata& metadata);

// Files of tensors that are no parts of one model lie side by side: traces, batches, models of torch.save. Each is named;
// nothing says that they belong together.
std::optional<Json> files_side_by_side(const std::string& path);

}  // namespace ravine
