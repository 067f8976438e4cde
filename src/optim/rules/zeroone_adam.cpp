// 0/1 Adam (Lu et al. 2022) as in DeepSpeed's ZeroOneAdam (deepspeed/runtime/fp16/onebit/zoadam.py), tensor by tensor.
// Step 1 changes nothing. While v is not frozen (up to step var_freeze_step + 1):
//   in steps divisible by the interval m and v use the mean gradient; in others m uses its compressed mean (one rank:
//   nothing). The interval begins at 1 and doubles after var_update_scaler such steps.
// When v is frozen each rank updates alone, m = b1 m + (1-b1) g, and accumulates its change of p in `a`. In steps
// divisible by the local interval each rank undoes its change, and all apply the compressed mean of the changes. m
// becomes the moment that gives this mean:
//   p -= a;  a *= sqrt(v) + eps;  a = mean(a);  m = -a / (sum of the rates);  p += a / (sqrt(v) + eps);  a = 0.
//   The local interval begins at 1 and doubles every local_step_scaler steps, up to local_step_clipper.
// Every step does p -= lr (m / (sqrt(v) + eps) + wd p), without bias correction. Between exchanges ranks hold different
// weights.
#include "optim/rules/one_bit.h"
#include "optim/rules/rules.h"
#include "optim/rules/tensor_parts.h"

namespace ravine {
namespace {

class ZerooneAdamRule : public UpdateRule {
 public:
  explicit ZerooneAdamRule(const OptimizerOptions& o) : o_(o) {}
  std::vector<StateDeclaration> states() const override {
    return {{.name = "m", .per_rank = true},
            {.name = "v"},
            {.name = "momentum_accumulator", .per_rank = true},
            {.name = "lrs", .per = StateDeclaration::Per::tensor, .type = DType::f64}};
  }
  Whole sees() const override { return Whole::tensor; }
  int64_t unreduced_from() const override { return o_.var_freeze_step + 2; }
  bool wants_unreduced(int64_t step) const override {
    return !changes_nothing(step) && (frozen(step) || step % interval_of_moments(step) != 0);
  }
  int64_t own_count(int64_t count, int ranks) const override { return error_count(count, ranks); }
  void update(Ctx& c, const UpdateViews& v, int64_t step, double lr, double grad_scale) const override {
    const Tensor direction = like(c, v.param);
    const CompressionRoom room(c, v.param.count(), v.group->size(), v.param.dtype);
    if (changes_nothing(step)) return;
    const TensorView &m = v.states[0], &square = v.states[1], &accumulated = v.states[2];
    const double rate = lr * v.spans[0].lr_mult, b1 = o_.betas[0], b2 = o_.betas[1];
    // The kept errors are errors of gradients: they do not apply to accumulated changes.
    if (frozen(step) && !frozen(step - 1) && !v.own.absent()) c.call(Fill{v.own, 0});
    AdamDirection move{.param = v.param,
                       .grad = v.grad,
                       .m = m,
                       .v = square,
                       .out = direction.view(),
                       .beta1 = 1,
                       .beta2 = 1,
                       .eps = o_.eps[0],
                       .weight_decay = v.spans[0].weight_decay,
                       .grad_scale = grad_scale};
    if (frozen(step)) {
      move.beta1 = b1;
      add_rate(v.states[3], rate);
    } else if (!wants_unreduced(step)) {
      move.beta1 = b1, move.beta2 = b2;
    } else if (v.group->size() > 1) {
      c.call(WeightedSum{.y = direction.view(), .x = v.grad, .keep = 0, .take = grad_scale});
      compressed_mean(c, *v.group, room, direction.view(), v.own);
      c.call(WeightedSum{.y = m, .x = direction.view(), .keep = b1, .take = 1 - b1});
    }
    c.call(move);
    c.call(WeightedSum{.y = v.param, .x = direction.view(), .take = -rate});
    if (!frozen(step)) return;
    c.call(WeightedSum{.y = accumulated, .x = direction.view(), .take = -rate});
    if (step % local_interval(step) == 0) exchange(c, v, room, direction.view());
  }

 private:
  bool frozen(int64_t step) const { return step > o_.var_freeze_step + 1; }

  void exchange(Ctx& c, const UpdateViews& v, const CompressionRoom& room, const TensorView& scratch) const {
    const TensorView &m = v.states[0], &square = v.states[1], &accumulated = v.states[2];
    c.call(WeightedSum{.y = v.param, .x = accumulated, .take = -1});
    c.call(TimesRoot{.x = accumulated, .v = square, .eps = o_.eps[0]});
    compressed_mean(c, *v.group, room, accumulated, v.own);
    c.call(WeightedSum{.y = m, .x = accumulated, .keep = 0, .take = -1 / sum_of_rates(v.states[3])});
    c.call(AdamDirection{.param = v.param,
                         .grad = v.grad,
                         .m = accumulated,
                         .v = square,
                         .out = scratch,
                         .beta1 = 1,
                         .beta2 = 1,
                         .eps = o_.eps[0],
                         .weight_decay = 0,
                         .grad_scale = 1});
    c.call(WeightedSum{.y = v.param, .x = scratch});
    c.call(Fill{accumulated, 0});
    c.call(Fill{v.states[3], 0});
  }

  // Host work: adds to one number of a tensor.
  static void add_rate(const TensorView& lrs, double rate) {
    if (lrs.data) *lrs.as<double>() += rate;
  }
  // Host work: returns one number of a tensor; 1 on meta, and 1 after rates of 0, since then nothing has moved.
  static double sum_of_rates(const TensorView& lrs) {
    const double sum = lrs.data ? *lrs.as<double>() : 1;
    return sum == 0 ? 1 : sum;
  }

  // Returns the interval before this step. Among steps 2 .. last, those divisible by the interval are counted; it
  // doubles after var_update_scaler of them. The loop runs once per doubling.
  int64_t interval_of_moments(int64_t step) const {
    const int64_t last = std::min(step - 1, o_.var_freeze_step + 1);
    for (int64_t interval = 1, at = 1;; interval *= 2) {
      const int64_t end = (at / interval + o_.var_update_scaler) * interval;
      if (end > last) return interval;
      at = end;
    }
  }
  int64_t local_interval(int64_t step) const {
    const int64_t doubled = std::max<int64_t>(0, step - 1 - (o_.var_freeze_step + 1)) / o_.local_step_scaler;
    return doubled < 62 ? std::min(o_.local_step_clipper, int64_t{1} << doubled) : o_.local_step_clipper;
  }

  const OptimizerOptions& o_;
};

}  // namespace

std::unique_ptr<UpdateRule> zeroone_adam_rule(const OptimizerOptions& o) { return std::make_unique<ZerooneAdamRule>(o); }

}  // namespace ravine
