// AdamW (Loshchilov, Hutter 2019) and Adam (Kingma, Ba 2015), which adds the decay to the gradient. Formulas: AdamW in
// kernels/updates.h.
#include <array>
#include <cmath>

#include "optim/rules/rules.h"

namespace ravine {
namespace {

class AdamRule : public UpdateRule {
 public:
  AdamRule(const OptimizerOptions& o, bool l2) : o_(o), l2_(l2) {}
  std::vector<StateDeclaration> states() const override { return {{.name = "m"}, {.name = "v"}}; }
  void update(Ctx& c, const UpdateViews& v, int64_t step, double lr, double grad_scale) const override {
    const double t = static_cast<double>(step), b1 = o_.betas[0], b2 = o_.betas[1];
    const bool corrects = o_.bias_correction;
    std::array<double, kStepScalars> scalars{lr, corrects ? 1 - std::pow(b1, t) : 1, corrects ? 1 - std::pow(b2, t) : 1,
                                             grad_scale};
    c.call(AdamW{.param = v.param,
                 .grad = v.grad,
                 .m = v.states[0],
                 .v = v.states[1],
                 .copy = v.copy,
                 .scalars = view_of(scalars.data(), DType::f64, {kStepScalars}),
                 .spans = v.spans,
                 .beta1 = b1,
                 .beta2 = b2,
                 .eps = o_.eps[0],
                 .l2 = l2_});
  }

 private:
  const OptimizerOptions& o_;
  bool l2_;
};

}  // namespace

std::unique_ptr<UpdateRule> adamw_rule(const OptimizerOptions& o) { return std::make_unique<AdamRule>(o, false); }
std::unique_ptr<UpdateRule> adam_rule(const OptimizerOptions& o) { return std::make_unique<AdamRule>(o, true); }

}  // namespace ravine
