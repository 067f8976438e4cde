// AdamW, Adam and SGD on what this rank updates of the flat buckets of a ParamStore, with global gradient clipping.
#pragma once
#include <functional>
#include <vector>

#include "config/config.h"
#include "engine/ctx.h"

namespace ravine {

class Optimizer {
 public:
  // Moments start at zero. No decay on norms and biases; lr_mult and wd_mult as the parameters say.
  Optimizer(const OptimizerOptions& options, ParamStore& store, const Types& types, DeviceKind device);

  // L2 norm of all gradients of the step, over all ranks, every parameter counted once, independent of order.
  double grad_norm(Ctx& c, const Group& all) const;

  // One update with learning rate `lr`; gradients are scaled by min(1, clip / (norm + 1e-6)) if clipping is on.
  // `before_unit` is called before the parameters of a unit change (a checkpoint may still be writing them).
  void update(Ctx& c, double lr, double norm, const std::function<void(const Unit&)>& before_unit);

  int64_t steps() const { return steps_; }
  void set_steps(int64_t n) { steps_ = n; }
  int64_t bytes() const;

  // The moments by name ("m", "v" or "momentum"), flat, one view per bucket of the store: of what this rank updates; absent for frozen ones.
  struct Moment {
    std::string name;
    std::vector<TensorView> buckets;
  };
  std::vector<Moment> moments() const;

 private:
  OptimizerOptions options_;
  ParamStore& store_;
  std::vector<std::vector<UpdateSpan>> spans_;  // per bucket
  std::vector<Storage> first_, second_;
  DType type_;
  int64_t steps_ = 0;
};

}  // namespace ravine
