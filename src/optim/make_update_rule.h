// From the option to the rule.
#pragma once
#include <memory>

#include "optim/update_rule.h"

namespace ravine {

// The rule that optimizer.type names; `options` must outlive it.
std::unique_ptr<UpdateRule> make_update_rule(const OptimizerOptions& options);

}  // namespace ravine
