// 1-bit Lamb (Li et al. 2021) as in DeepSpeed's OnebitLamb (deepspeed/runtime/fp16/onebit/lamb.py). Step 1 changes
// nothing. Up to freeze_step it is Lamb without bias correction, for each tensor:
//   u = m / (sqrt(v) + eps) + wd p;  p -= lr r u;  k = coeff_beta k + (1 - coeff_beta) r (if r is not 1).
// k, the mean of r, is frozen afterwards, and so is v. Each rank then adds its own gradient to m. All m are
// concatenated, each scaled to the same size, and replaced by their compressed mean; sizes are |m| / sqrt(count) at the
// freeze. The mean gives a gradient g, which updates `fresh`, a second v:
//   g = (m - b1 m_before) / (1 - b1);  f = max((sqrt(v) + eps) / (sqrt(fresh) + eps)),
//   weighted by the share |m / (sqrt(v) + eps)| / |u|, at most 1;
//   f is kept within [factor_min, factor_max], and within factor_threshold of its previous value;  p -= lr k f u.
#include "optim/rules/one_bit.h"
#include "optim/rules/rules.h"
#include "optim/rules/tensor_parts.h"

namespace ravine {
namespace {

class OnebitLambRule : public UpdateRule {
 public:
  explicit OnebitLambRule(const OptimizerOptions& o) : o_(o) {}
  std::vector<StateDeclaration> states() const override {
    using Per = StateDeclaration::Per;
    return {{.name = "m"},
            {.name = "v"},
            {.name = "v_fresh"},
            {.name = "scaling_coeff", .per = Per::tensor, .type = DType::f64},
            {.name = "lamb_coeff_freeze", .per = Per::tensor, .type = DType::f64},
            {.name = "last_factor", .per = Per::tensor, .type = DType::f64}};
  }
  Whole sees() const override { return Whole::model; }
  int64_t unreduced_from() const override { return o_.freeze_step + 1; }
  bool wants_unreduced(int64_t step) const override { return step > o_.freeze_step; }
  // Errors, and the padding after the last tensor.
  int64_t own_count(int64_t count, int ranks) const override {
    return ranks == 1 ? 0 : error_count(count, ranks) + padded_count(count, ranks) - count;
  }
  void update(Ctx&, const UpdateViews&, int64_t, double, double) const override { fail("onebit_lamb: it updates all at once"); }

  void update_all(Ctx& c, std::span<const UpdateViews> all, const TensorView& own, const Group& group, int64_t step, double lr,
                  double grad_scale) const override {
    int64_t count = 0, most = 0;
    for (const UpdateViews& v : all) count += v.param.count(), most = std::max(most, v.param.count());
    const DType type = all[0].param.dtype;
    const Tensor before = c.empty({count}, type, MemoryKind::workspace), joined = like(c, before.view()),
                 u = c.empty({most}, type, MemoryKind::workspace), largest = c.empty({1}, DType::f64, MemoryKind::workspace);
    const CompressionRoom room(c, count, group.size(), type);
    if (changes_nothing(step)) return;
    if (!wants_unreduced(step)) {
      for (const UpdateViews& v : all) warm_up(c, v, stretch(u.view(), 0, v.param.count()), step, lr, grad_scale);
      return;
    }
    if (step == o_.freeze_step + 1) scale_momenta(c, all);
    int64_t at = 0;
    for (const UpdateViews& v : all) {
      const TensorView old = stretch(before.view(), at, v.param.count()), part = stretch(joined.view(), at, v.param.count());
      const double scale = number(v.states[3]);
      c.call(Cast{flat(v.states[0]), old});
      c.call(Cast{flat(v.states[0]), part});
      c.call(WeightedSum{
          .y = part, .x = flat(v.grad), .keep = o_.betas[0] * scale, .take = (1 - o_.betas[0]) * grad_scale * scale});
      at += v.param.count();
    }
    if (group.size() > 1) {
      const int64_t errors = error_count(count, group.size()), behind = padded_count(count, group.size()) - count;
      compressed_mean(c, group, room, joined.view(), stretch(own, 0, errors),
                      behind > 0 ? stretch(own, errors, behind) : TensorView{});
    }
    at = 0;
    for (const UpdateViews& v : all) {
      const int64_t n = v.param.count();
      c.call(Cast{stretch(joined.view(), at, n), flat(v.states[0])});
      compressed(c, v, stretch(before.view(), at, n), stretch(u.view(), 0, n), largest.view(), lr);
      at += n;
    }
  }

 private:
  static TensorView flat(const TensorView& v) { return stretch(v, 0, v.count()); }
  // Host work: returns one number of a tensor; 1 on meta.
  static double number(const TensorView& state) { return state.data ? *state.as<double>() : 1; }
  // Host work: sets one number of a tensor.
  static void set(const TensorView& state, double x) {
    if (state.data) *state.as<double>() = x;
  }

  AdamDirection direction(const UpdateViews& v, const TensorView& grad, const TensorView& square, const TensorView& out) const {
    return {.param = v.param,
            .grad = grad,
            .m = v.states[0],
            .v = square,
            .out = out,
            .beta1 = 1,
            .beta2 = 1,
            .eps = o_.eps[0],
            .weight_decay = 0,
            .grad_scale = 1};
  }

  void warm_up(Ctx& c, const UpdateViews& v, const TensorView& u, int64_t step, double lr, double grad_scale) const {
    AdamDirection move = direction(v, v.grad, v.states[1], u);
    move.beta1 = o_.betas[0], move.beta2 = o_.betas[1], move.grad_scale = grad_scale;
    move.weight_decay = v.spans[0].weight_decay;
    c.call(move);
    if (step == o_.freeze_step) c.call(Cast{flat(v.states[1]), flat(v.states[2])});
    const double ratio = trust_ratio(norm_of(c, v.param), norm_of(c, u), o_.min_coeff, o_.max_coeff);
    if (ratio != 1) set(v.states[4], o_.coeff_beta * number(v.states[4]) + (1 - o_.coeff_beta) * ratio);
    c.call(WeightedSum{.y = v.param, .x = u, .take = -lr * v.spans[0].lr_mult * ratio});
  }

  void scale_momenta(Ctx& c, std::span<const UpdateViews> all) const {
    std::vector<double> sizes;
    double sum = 0;
    for (const UpdateViews& v : all) sizes.push_back(root_mean_square(c, v.states[0])), sum += sizes.back();
    for (size_t i = 0; i < sizes.size(); ++i) {
      set(all[i].states[3], sizes[i] > 0 ? sum / static_cast<double>(sizes.size()) / sizes[i] : 1);
      set(all[i].states[5], 1);
    }
  }

  void compressed(Ctx& c, const UpdateViews& v, const TensorView& before, const TensorView& u, const TensorView& largest,
                  double lr) const {
    const TensorView &m = v.states[0], &square = v.states[1], &fresh = v.states[2];
    const double b1 = o_.betas[0], decay = v.spans[0].weight_decay;
    c.call(WeightedSum{.y = m, .x = m, .keep = 0, .take = 1 / number(v.states[3])});
    c.call(WeightedSum{.y = before, .x = flat(m), .keep = -b1 / (1 - b1), .take = 1 / (1 - b1)});
    AdamDirection follow = direction(v, before, fresh, u);
    follow.beta2 = o_.betas[1];
    c.call(follow);
    c.call(LargestRatio{.v = square, .fresh = fresh, .largest = largest, .eps = o_.eps[0]});
    c.call(direction(v, before, square, u));
    double factor = number(largest);
    if (decay > 0) {
      const double plain = norm_of(c, u);
      c.call(WeightedSum{.y = u, .x = v.param, .take = decay});
      const double whole = norm_of(c, u), share = whole > 0 ? std::min(1.0, plain / whole) : 1;
      factor = factor * share + (1 - share);
    }
    const double last = number(v.states[5]);
    factor = std::max(std::min(factor, o_.factor_max), o_.factor_min);
    factor = std::max(std::min(factor, last * (1 + o_.factor_threshold)), last * (1 - o_.factor_threshold));
    set(v.states[5], factor);
    c.call(WeightedSum{.y = v.param, .x = u, .take = -lr * v.spans[0].lr_mult * number(v.states[4]) * factor});
  }

  const OptimizerOptions& o_;
};

}  // namespace

std::unique_ptr<UpdateRule> onebit_lamb_rule(const OptimizerOptions& o) { return std::make_unique<OnebitLambRule>(o); }

}  // namespace ravine
