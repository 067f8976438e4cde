// ModelLink's cadam: Lion's sign of one moment, stored in f16 with a scale per row (a vector is one row). Formulas:
// Cadam in kernels/updates.h. Its eps is fixed.
#include "optim/rules/rules.h"

namespace ravine {
namespace {

class CadamRule : public UpdateRule {
 public:
  explicit CadamRule(const OptimizerOptions& o) : o_(o) {}
  std::vector<StateDeclaration> states() const override {
    return {{.name = "exp_avg", .type = DType::f16},
            {.name = "exp_avg_scale", .per = StateDeclaration::Per::row, .type = DType::f32}};
  }
  Whole sees() const override { return Whole::row; }
  void update(Ctx& c, const UpdateViews& v, int64_t, double lr, double grad_scale) const override {
    c.call(Cadam{.param = v.param,
                 .grad = v.grad,
                 .q = v.states[0],
                 .s = v.states[1],
                 .beta = o_.beta1,
                 .lr = lr * v.spans[0].lr_mult,
                 .weight_decay = v.spans[0].weight_decay,
                 .grad_scale = grad_scale});
  }

 private:
  const OptimizerOptions& o_;
};

}  // namespace

std::unique_ptr<UpdateRule> cadam_rule(const OptimizerOptions& o) { return std::make_unique<CadamRule>(o); }

}  // namespace ravine
