// Stochastic gradient descent with momentum as in torch.optim.SGD. Formulas: Sgd in kernels/updates.h.
#include <array>

#include "optim/rules/rules.h"

namespace ravine {
namespace {

class SgdRule : public UpdateRule {
 public:
  explicit SgdRule(const OptimizerOptions& o) : o_(o) {}
  std::vector<StateDeclaration> states() const override {
    return o_.momentum > 0 ? std::vector<StateDeclaration>{{.name = "momentum"}} : std::vector<StateDeclaration>{};
  }
  void update(Ctx& c, const UpdateViews& v, int64_t step, double lr, double grad_scale) const override {
    std::array<double, kStepScalars> scalars{lr, 0, 0, grad_scale};
    c.call(Sgd{.param = v.param,
               .grad = v.grad,
               .buffer = v.states.empty() ? TensorView{} : v.states[0],
               .copy = v.copy,
               .scalars = view_of(scalars.data(), DType::f64, {kStepScalars}),
               .spans = v.spans,
               .momentum = o_.momentum,
               .dampening = o_.dampening,
               .nesterov = o_.nesterov,
               .first = step == 1});
  }

 private:
  const OptimizerOptions& o_;
};

}  // namespace

std::unique_ptr<UpdateRule> sgd_rule(const OptimizerOptions& o) { return std::make_unique<SgdRule>(o); }

}  // namespace ravine
