// 1-bit Adam (Tang et al. 2021) as in DeepSpeed's OnebitAdam (deepspeed/runtime/fp16/onebit/adam.py), tensor by tensor:
//   step 1 changes nothing;  up to freeze_step Adam without bias correction: p -= lr (m / (sqrt(v) + eps) + wd p);
//   then v is frozen, each rank adds its own gradient to m, and m becomes its compressed mean over the data ranks.
// As upstream, an element whose v is 0 at the freeze moves by m / eps.
#include "optim/rules/one_bit.h"
#include "optim/rules/rules.h"
#include "optim/rules/tensor_parts.h"

namespace ravine {
namespace {

class OnebitAdamRule : public UpdateRule {
 public:
  explicit OnebitAdamRule(const OptimizerOptions& o) : o_(o) {}
  std::vector<StateDeclaration> states() const override { return {{.name = "m"}, {.name = "v"}}; }
  Whole sees() const override { return Whole::tensor; }
  int64_t unreduced_from() const override { return o_.freeze_step + 1; }
  bool wants_unreduced(int64_t step) const override { return step > o_.freeze_step; }
  int64_t own_count(int64_t count, int ranks) const override { return error_count(count, ranks); }
  void update(Ctx& c, const UpdateViews& v, int64_t step, double lr, double grad_scale) const override {
    const Tensor direction = like(c, v.param);
    const CompressionRoom room(c, v.param.count(), v.group->size(), v.param.dtype);
    if (changes_nothing(step)) return;
    const bool frozen = wants_unreduced(step);
    if (frozen) {
      c.call(WeightedSum{.y = v.states[0], .x = v.grad, .keep = o_.betas[0], .take = (1 - o_.betas[0]) * grad_scale});
      compressed_mean(c, *v.group, room, v.states[0], v.own);
    }
    c.call(AdamDirection{.param = v.param,
                         .grad = v.grad,
                         .m = v.states[0],
                         .v = v.states[1],
                         .out = direction.view(),
                         .beta1 = frozen ? 1 : o_.betas[0],
                         .beta2 = frozen ? 1 : o_.betas[1],
                         .eps = o_.eps[0],
                         .weight_decay = v.spans[0].weight_decay,
                         .grad_scale = grad_scale});
    c.call(WeightedSum{.y = v.param, .x = direction.view(), .take = -lr * v.spans[0].lr_mult});
  }

 private:
  const OptimizerOptions& o_;
};

}  // namespace

std::unique_ptr<UpdateRule> onebit_adam_rule(const OptimizerOptions& o) { return std::make_unique<OnebitAdamRule>(o); }

}  // namespace ravine
