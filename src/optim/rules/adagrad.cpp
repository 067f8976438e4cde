// Adagrad (Duchi, Hazan, Singer 2011) as in torch.optim.Adagrad. Formulas: Adagrad in kernels/updates.h.
#include <array>

#include "optim/rules/rules.h"

namespace ravine {
namespace {

class AdagradRule : public UpdateRule {
 public:
  explicit AdagradRule(const OptimizerOptions& o) : o_(o) {}
  std::vector<StateDeclaration> states() const override { return {{.name = "sum"}}; }
  void update(Ctx& c, const UpdateViews& v, int64_t step, double lr, double grad_scale) const override {
    const double rate = lr / (1 + static_cast<double>(step - 1) * o_.lr_decay);
    std::array<double, kStepScalars> scalars{rate, 0, 0, grad_scale};
    c.call(Adagrad{.param = v.param,
                   .grad = v.grad,
                   .sum = v.states[0],
                   .copy = v.copy,
                   .scalars = view_of(scalars.data(), DType::f64, {kStepScalars}),
                   .spans = v.spans,
                   .eps = o_.eps[0],
                   .initial = o_.initial_accumulator_value,
                   .first = step == 1});
  }

 private:
  const OptimizerOptions& o_;
};

}  // namespace

std::unique_ptr<UpdateRule> adagrad_rule(const OptimizerOptions& o) { return std::make_unique<AdagradRule>(o); }

}  // namespace ravine
