// Descriptions for `ravine info` of single files from checkpoints or runs of other programs: states of an optimizer or
// a schedule, random states, notes and results.
#pragma once
#include <optional>
#include <string>

#include "base/json.h"

namespace ravine {

// Returns the description of a JSON file or a tracker file; empty if name and content are of no known part.
std::optional<Json> describe_part(const std::string& path);

// Returns the description of a file of torch.save: the fields of its top level, and the number of tensors below. For a
// file of weights it has "kind" and "to_use_it" alone; the tensors are listed elsewhere. Empty if the name is of no
// known part. A damaged file is a UserError.
std::optional<Json> describe_torch_part(const std::string& path);

}  // namespace ravine
