// Reads tensors and plain values anywhere in a torch file.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "files/torch_file.h"
#include "io/convert/elements.h"

namespace ravine {

// Returns the tensor at value `v` of a torch file's pickle, as lazy elements. Anything else than a dense tensor of a
// known type is a UserError; `name` is for messages.
ElementsPtr torch_elements(std::shared_ptr<const TorchFile> file, Pickle::Ref v, const std::string& name);
// Returns the integer at value `v`, stored plainly or as a tensor of one element; nothing for other values.
std::optional<int64_t> torch_whole_number(const TorchFile& f, Pickle::Ref v);
// Returns the number at value `v`, stored plainly or as a tensor of one element; nothing for other values.
std::optional<double> torch_number(const TorchFile& f, Pickle::Ref v);
// Returns value `v` of a pickle as JSON: numbers, texts, and lists and dicts of them; other values are left out. The
// result is bounded, since a pickle can refer to one value many times.
Json plain_values(const Pickle& p, Pickle::Ref v);
// Returns weight_decay, betas, eps and initial_lr of each group in an optimizer's param_groups, as far as present.
Json group_settings(const Pickle& p, Pickle::Ref groups);

}  // namespace ravine
