// Creates the update rule for an option.
#pragma once
#include <memory>

#include "optim/update_rule.h"

namespace ravine {

// Returns the rule of optimizer.type; `options` must outlive it.
std::unique_ptr<UpdateRule> make_update_rule(const OptimizerOptions& options);

}  // namespace ravine
