// An update rule: how a step changes parameters, and what it keeps of the steps before. One file in rules/ each and a line in kRules (rules/rules.h); what it
// declares here is all that optimizer, ZeRO, checkpoints, plans and estimates know of it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "engine/ctx.h"

namespace ravine {

// What the update of one bucket sees: flat views of what this rank updates of it (Bucket::owned), all of one length.
struct UpdateViews {
  TensorView param, grad, copy;       // copy: 16 bits, absent if there is none
  std::vector<TensorView> states;     // in the order in which the rule names them
  std::span<const UpdateSpan> spans;  // runs of parameters that share rate and decay
};

class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  // Names of what it keeps, each like the parameter, in the master's type, zero at first: as checkpoints call them ("m/PARAMETER").
  virtual std::vector<std::string> states() const = 0;
  // Step `step` (from 1) at learning rate `lr`; gradients count times grad_scale. It sees single elements only, so buckets may be cut anywhere.
  virtual void update(Ctx& c, const UpdateViews& v, int64_t step, double lr, double grad_scale) const = 0;
};

// The rule that optimizer.type names; `options` must outlive it.
std::unique_ptr<UpdateRule> make_update_rule(const OptimizerOptions& options);

}  // namespace ravine
