// Lamb (You et al. 2020, Large Batch Optimization for Deep Learning) as in DeepSpeed's FusedLamb
// (csrc/lamb/fused_lamb_cuda_kernel.cu), tensor by tensor:
//   u = m / (sqrt(v) + eps) + wd p of uncorrected moments;
//   r = clamp(|p| / |u|, min_coeff, max_coeff), 1 if a norm is 0;  p -= lr [sqrt(1 - b2^t) / (1 - b1^t)] r u.
// Bias correction is a factor of the step: ratio and weight decay are without it.
#include "optim/rules/rules.h"
#include "optim/rules/tensor_parts.h"

namespace ravine {
namespace {

class LambRule : public UpdateRule {
 public:
  explicit LambRule(const OptimizerOptions& o) : o_(o) {}
  std::vector<StateDeclaration> states() const override { return {{.name = "m"}, {.name = "v"}}; }
  Whole sees() const override { return Whole::tensor; }
  void update(Ctx& c, const UpdateViews& v, int64_t step, double lr, double grad_scale) const override {
    const double t = static_cast<double>(step), b1 = o_.betas[0], b2 = o_.betas[1];
    const Tensor direction = like(c, v.param);
    c.call(AdamDirection{.param = v.param,
                         .grad = v.grad,
                         .m = v.states[0],
                         .v = v.states[1],
                         .out = direction.view(),
                         .beta1 = b1,
                         .beta2 = b2,
                         .eps = o_.eps[0],
                         .weight_decay = v.spans[0].weight_decay,
                         .grad_scale = grad_scale});
    const double ratio = trust_ratio(norm_of(c, v.param), norm_of(c, direction.view()), o_.min_coeff, o_.max_coeff);
    const double correction = o_.bias_correction ? std::sqrt(1 - std::pow(b2, t)) / (1 - std::pow(b1, t)) : 1;
    c.call(WeightedSum{.y = v.param, .x = direction.view(), .take = -lr * v.spans[0].lr_mult * correction * ratio});
  }

 private:
  const OptimizerOptions& o_;
};

}  // namespace

std::unique_ptr<UpdateRule> lamb_rule(const OptimizerOptions& o) { return std::make_unique<LambRule>(o); }

}  // namespace ravine
