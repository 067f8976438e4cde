// Adafactor (Shazeer, Stern 2018) as in transformers.optimization.Adafactor, tensor by tensor:
//   beta2 = 1 - t^-|decay_rate|;  squares g^2 + eps[0] decay by it, of matrices in means of rows and columns (last two
//   dims), of vectors in elements;  u = g / sqrt(squares);  u /= max(1, rms(u) / clip_threshold);
//   rate = [relative_step: min(0.01 or, with warmup_init, 1e-6 t, 1 / sqrt(t)), else lr] *
//          [scale_parameter: max(eps[1], rms(p))];  u *= rate;
//   with beta1: u = m = beta1 m + (1 - beta1) u;  p -= rate wd p, then p -= u.
// optimizer.beta1 = 0 is upstream's None: no first moment.
#include "optim/rules/rules.h"
#include "optim/rules/tensor_parts.h"

namespace ravine {
namespace {

class AdafactorRule : public UpdateRule {
 public:
  explicit AdafactorRule(const OptimizerOptions& o) : o_(o) {}
  std::vector<StateDeclaration> states() const override {
    using Per = StateDeclaration::Per;
    std::vector<StateDeclaration> out{{.name = "exp_avg_sq_row", .per = Per::row, .of = has_rows_and_columns},
                                      {.name = "exp_avg_sq_col", .per = Per::column, .of = has_rows_and_columns},
                                      {.name = "exp_avg_sq", .of = has_elements_only}};
    if (o_.beta1 > 0) out.push_back({.name = "exp_avg"});
    return out;
  }
  Whole sees() const override { return Whole::tensor; }
  std::optional<double> own_rate(int64_t step) const override {
    if (!o_.relative_step) return {};
    const double t = static_cast<double>(step);
    return std::min(o_.warmup_init ? 1e-6 * t : 1e-2, 1 / std::sqrt(t));
  }
  void update(Ctx& c, const UpdateViews& v, int64_t step, double lr, double grad_scale) const override {
    const double t = static_cast<double>(step), beta2 = 1 - std::pow(t, -std::abs(o_.decay_rate));
    const Tensor u = like(c, v.param);
    if (v.states[2].absent()) {
      c.call(FactoredMoments{.x = v.grad,
                             .minus = {},
                             .row = v.states[0],
                             .col = v.states[1],
                             .decay = beta2,
                             .eps = o_.eps[0],
                             .scale = grad_scale});
      c.call(FactoredScale{.x = v.grad, .row = v.states[0], .col = v.states[1], .out = u.view(), .scale = grad_scale});
    } else {
      c.call(RootScale{
          .x = v.grad, .square = v.states[2], .out = u.view(), .decay = beta2, .eps = o_.eps[0], .scale = grad_scale});
    }
    double rate = own_rate(step).value_or(lr) * v.spans[0].lr_mult;
    if (o_.scale_parameter) rate *= std::max(o_.eps[1], root_mean_square(c, v.param));
    const double taken = rate / std::max(1.0, root_mean_square(c, u.view()) / o_.clip_threshold);
    const double keep = 1 - rate * v.spans[0].weight_decay;
    if (o_.beta1 > 0) {
      c.call(WeightedSum{.y = v.states[3], .x = u.view(), .keep = o_.beta1, .take = (1 - o_.beta1) * taken});
      c.call(WeightedSum{.y = v.param, .x = v.states[3], .keep = keep, .take = -1});
    } else {
      c.call(WeightedSum{.y = v.param, .x = u.view(), .keep = keep, .take = -taken});
    }
  }

 private:
  const OptimizerOptions& o_;
};

}  // namespace

std::unique_ptr<UpdateRule> adafactor_rule(const OptimizerOptions& o) { return std::make_unique<AdafactorRule>(o); }

}  // namespace ravine
