#include "optim/make_update_rule.h"

#include "optim/rules/rules.h"

namespace ravine {

std::unique_ptr<UpdateRule> make_update_rule(const OptimizerOptions& options) {
  for (const RuleEntry& r : kRules)
    if (options.type == r.type) return r.make(options);
  fail("no update rule is called '{}'", name(options.type));
}

}  // namespace ravine
