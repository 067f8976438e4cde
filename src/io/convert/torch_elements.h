// Tensors anywhere in a torch file, as elements to copy.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "files/torch_file.h"
#include "io/convert/elements.h"

namespace ravine {

// `v` must be a dense tensor of a known type, or it is a UserError; `name` is for messages.
ElementsPtr torch_elements(std::shared_ptr<const TorchFile> file, Pickle::Ref v, const std::string& name);
// A whole number, plain or as a tensor of one element; nothing if it is none.
std::optional<int64_t> torch_whole_number(const TorchFile& f, Pickle::Ref v);
// A number, plain or as a tensor of one element; nothing if it is none.
std::optional<double> torch_number(const TorchFile& f, Pickle::Ref v);
// Numbers, texts, and lists and dicts of them; what else there is stays out. Bounded: a pickle can say one value many times.
Json plain_values(const Pickle& p, Pickle::Ref v);
// What param_groups of an optimizer say: of each group weight_decay, betas, eps and initial_lr, as far as they are there.
Json group_settings(const Pickle& p, Pickle::Ref groups);

}  // namespace ravine
