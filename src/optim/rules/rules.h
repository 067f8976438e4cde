// Every update rule there is, by the name that optimizer.type gives it.
#pragma once
#include "optim/update_rule.h"

namespace ravine {

std::unique_ptr<UpdateRule> adamw_rule(const OptimizerOptions& o);
std::unique_ptr<UpdateRule> adam_rule(const OptimizerOptions& o);
std::unique_ptr<UpdateRule> sgd_rule(const OptimizerOptions& o);

struct RuleEntry {
  OptimizerType type;
  std::unique_ptr<UpdateRule> (*make)(const OptimizerOptions&);
};
inline constexpr RuleEntry kRules[] = {
    {OptimizerType::adamw, adamw_rule}, {OptimizerType::adam, adam_rule}, {OptimizerType::sgd, sgd_rule}};

}  // namespace ravine
