// All update rules by their names in optimizer.type: a function for each row of config/optimizers.def.
#pragma once
#include "optim/update_rule.h"

namespace ravine {

#define OPTIMIZER(name, ...) std::unique_ptr<UpdateRule> name##_rule(const OptimizerOptions& o);
#include "config/optimizers.def"
#undef OPTIMIZER

struct RuleEntry {
  OptimizerType type;
  std::unique_ptr<UpdateRule> (*make)(const OptimizerOptions&);
};
inline constexpr RuleEntry kRules[] = {
#define OPTIMIZER(name, ...) {OptimizerType::name, name##_rule},
#include "config/optimizers.def"
#undef OPTIMIZER
};

}  // namespace ravine
