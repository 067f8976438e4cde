// Came (Luo et al. 2023, CAME: Confidence-guided Adaptive Memory Efficient Optimization) as in MindFormers
// (mindformers/core/optim/came.py), tensor by tensor. u is Adafactor's, with beta2 = 1 - t^-decay_rate and before the
// rate;
//   m = beta1 m + (1 - beta1) u;  for matrices the instability (u - m)^2 + eps[2] decays by beta3, in means of rows and
//   columns, and m is divided by its root;  rate = lr * [scale_parameter: max(eps[1], rms(p))];
//   p -= rate wd p, then p -= rate m.
// relative_step is not offered: upstream its rate is 0, so nothing changes.
#include "optim/rules/rules.h"
#include "optim/rules/tensor_parts.h"

namespace ravine {
namespace {

class CameRule : public UpdateRule {
 public:
  explicit CameRule(const OptimizerOptions& o) : o_(o) {}
  std::vector<StateDeclaration> states() const override {
    using Per = StateDeclaration::Per;
    return {{.name = "exp_avg"},
            {.name = "exp_avg_sq", .of = has_elements_only},
            {.name = "exp_avg_sq_row", .per = Per::row, .of = has_rows_and_columns},
            {.name = "exp_avg_sq_col", .per = Per::column, .of = has_rows_and_columns},
            {.name = "exp_avg_insta_row", .per = Per::row, .of = has_rows_and_columns},
            {.name = "exp_avg_insta_col", .per = Per::column, .of = has_rows_and_columns}};
  }
  Whole sees() const override { return Whole::tensor; }
  void update(Ctx& c, const UpdateViews& v, int64_t step, double lr, double grad_scale) const override {
    const double beta2 = 1 - std::pow(static_cast<double>(step), -std::abs(o_.decay_rate));
    const TensorView &moment = v.states[0], &row = v.states[2], &col = v.states[3];
    const bool matrix = v.states[1].absent();
    const Tensor u = like(c, v.param);
    if (matrix) {
      c.call(FactoredMoments{
          .x = v.grad, .minus = {}, .row = row, .col = col, .decay = beta2, .eps = o_.eps[0], .scale = grad_scale});
      c.call(FactoredScale{.x = v.grad, .row = row, .col = col, .out = u.view(), .scale = grad_scale});
    } else {
      c.call(RootScale{
          .x = v.grad, .square = v.states[1], .out = u.view(), .decay = beta2, .eps = o_.eps[0], .scale = grad_scale});
    }
    const double clipped = 1 / std::max(1.0, root_mean_square(c, u.view()) / o_.clip_threshold);
    const double rate = lr * v.spans[0].lr_mult * (o_.scale_parameter ? std::max(o_.eps[1], root_mean_square(c, v.param)) : 1);
    c.call(WeightedSum{.y = moment, .x = u.view(), .keep = o_.beta1, .take = (1 - o_.beta1) * clipped});
    if (matrix) {
      c.call(FactoredMoments{.x = u.view(),
                             .minus = moment,
                             .row = v.states[4],
                             .col = v.states[5],
                             .decay = o_.beta3,
                             .eps = o_.eps[2],
                             .scale = clipped});
      c.call(FactoredScale{.x = moment, .row = v.states[4], .col = v.states[5], .out = u.view()});
    }
    const double keep = 1 - rate * v.spans[0].weight_decay;
    c.call(WeightedSum{.y = v.param, .x = matrix ? u.view() : moment, .keep = keep, .take = -rate});
  }

 private:
  const OptimizerOptions& o_;
};

}  // namespace

std::unique_ptr<UpdateRule> came_rule(const OptimizerOptions& o) { return std::make_unique<CameRule>(o); }

}  // namespace ravine
