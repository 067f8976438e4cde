// An update rule on what this rank updates of the flat buckets of a GradStore, with global gradient clipping.
#pragma once
#include <functional>
#include <vector>

#include "config/config.h"
#include "engine/ctx.h"
#include "optim/update_rule.h"

namespace ravine {

class Optimizer {
 public:
  // States start at zero. Decay as optimizer.decay says, lr_mult and wd_mult as the parameters say.
  Optimizer(const OptimizerOptions& options, GradStore& store, const Types& types, DeviceKind device);

  // L2 norm of all gradients of the step, over all ranks, every parameter counted once, independent of order.
  double grad_norm(Ctx& c, const Group& all) const;

  // One update with learning rate `lr`; gradients are scaled by min(1, clip / (norm + 1e-6)) if clipping is on.
  // `before_unit` is called before the parameters of a unit change (a checkpoint may still be writing them).
  void update(Ctx& c, double lr, double norm, const std::function<void(const Unit&)>& before_unit);

  int64_t steps() const { return steps_; }
  void set_steps(int64_t n) { steps_ = n; }
  int64_t bytes() const;

  // What the rule keeps, by name, flat, one view per bucket of the store: of what this rank updates; absent for frozen ones.
  struct State {
    std::string name;
    std::vector<TensorView> buckets;
  };
  std::vector<State> states() const;

 private:
  OptimizerOptions options_;
  GradStore& store_;
  std::vector<std::vector<UpdateSpan>> spans_;  // per bucket
  std::unique_ptr<UpdateRule> rule_;
  std::vector<std::vector<Storage>> states_;  // by state of the rule, per bucket
  DType type_;
  int64_t steps_ = 0;
};

}  // namespace ravine
