// What `ravine info` says of a single file out of a checkpoint or a run of another program: states of an optimizer or a
// schedule, random states, notes and results.
#pragma once
#include <optional>
#include <string>

#include "base/json.h"

namespace ravine {

// Of a JSON file or a tracker file. Nothing of one that is no such part by its name and what it holds.
std::optional<Json> describe_part(const std::string& path);

// Of a file of torch.save whose name is that of such a part: fields of its top level, and how many tensors lie below; of one that
// holds weights ("kind" and "to_use_it" alone) the tensors are listed elsewhere. Nothing of other names. A damaged file is a
// UserError.
std::optional<Json> describe_torch_part(const std::string& path);

}  // namespace ravine
