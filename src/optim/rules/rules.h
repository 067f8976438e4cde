// Every update rule there is, by the name that optimizer.type gives it.
#pragma once
#include "optim/update_rule.h"

namespace ravine {

std::unique_ptr<UpdateRule> adamw_rule(const OptimizerOptions& o);
std::unique_ptr<UpdateRule> adam_rule(const OptimizerOptions& o);
std::unique_ptr<UpdateRule> sgd_rule(const OptimizerOptions& o);
std::unique_ptr<UpdateRule> adagrad_rule(const OptimizerOptions& o);
std::unique_ptr<UpdateRule> lion_rule(const OptimizerOptions& o);
std::unique_ptr<UpdateRule> lamb_rule(const OptimizerOptions& o);
std::unique_ptr<UpdateRule> adafactor_rule(const OptimizerOptions& o);
std::unique_ptr<UpdateRule> came_rule(const OptimizerOptions& o);
std::unique_ptr<UpdateRule> cadam_rule(const OptimizerOptions& o);
std::unique_ptr<UpdateRule> muon_rule(const OptimizerOptions& o);
std::unique_ptr<UpdateRule> onebit_adam_rule(const OptimizerOptions& o);
std::unique_ptr<UpdateRule> zeroone_adam_rule(const OptimizerOptions& o);
std::unique_ptr<UpdateRule> onebit_lamb_rule(const OptimizerOptions& o);

struct RuleEntry {
  OptimizerType type;
  std::unique_ptr<UpdateRule> (*make)(const OptimizerOptions&);
};
inline constexpr RuleEntry kRules[] = {{OptimizerType::adamw, adamw_rule},
                                       {OptimizerType::adam, adam_rule},
                                       {OptimizerType::sgd, sgd_rule},
                                       {OptimizerType::adagrad, adagrad_rule},
                                       {OptimizerType::adafactor, adafactor_rule},
                                       {OptimizerType::lamb, lamb_rule},
                                       {OptimizerType::lion, lion_rule},
                                       {OptimizerType::muon, muon_rule},
                                       {OptimizerType::came, came_rule},
                                       {OptimizerType::cadam, cadam_rule},
                                       {OptimizerType::onebit_adam, onebit_adam_rule},
                                       {OptimizerType::zeroone_adam, zeroone_adam_rule},
                                       {OptimizerType::onebit_lamb, onebit_lamb_rule}};

}  // namespace ravine
