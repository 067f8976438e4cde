// Lion (Chen et al. 2023, Symbolic Discovery of Optimization Algorithms) as in DeepSpeed's FusedLion and
// DeepSpeedCPULion. Formulas: Lion in kernels/updates.h.
#include <array>

#include "optim/rules/rules.h"

namespace ravine {
namespace {

class LionRule : public UpdateRule {
 public:
  explicit LionRule(const OptimizerOptions& o) : o_(o) {}
  std::vector<StateDeclaration> states() const override { return {{.name = "m"}}; }
  void update(Ctx& c, const UpdateViews& v, int64_t, double lr, double grad_scale) const override {
    std::array<double, kStepScalars> scalars{lr, 0, 0, grad_scale};
    c.call(Lion{.param = v.param,
                .grad = v.grad,
                .m = v.states[0],
                .copy = v.copy,
                .scalars = view_of(scalars.data(), DType::f64, {kStepScalars}),
                .spans = v.spans,
                .beta1 = o_.betas[0],
                .beta2 = o_.betas[1]});
  }

 private:
  const OptimizerOptions& o_;
};

}  // namespace

std::unique_ptr<UpdateRule> lion_rule(const OptimizerOptions& o) { return std::make_unique<LionRule>(o); }

}  // namespace ravine
