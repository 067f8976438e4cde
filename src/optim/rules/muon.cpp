// Muon (Jordan et al. 2024) for hidden matrices as in torch.optim.Muon; AdamW for embeddings, head, norms and biases:
//   m = momentum m + (1 - momentum) g;  x = nesterov ? (1 - momentum) g + momentum m : m;  x /= max(|x|, eps);
//   ns_steps times x = a x + (b A + c A A) x, A = x x^T (Newton-Schulz; of a tall matrix its transpose);
//   p -= lr wd p, then p -= lr [sqrt(max(1, rows / columns)) or, for AdamW's size, 0.2 sqrt(max(rows, columns))] x.
// torch iterates in bf16; here the type of the masters is used. AdamW uses optimizer.betas and an eps of 1e-8.
#include <array>

#include "optim/rules/rules.h"
#include "optim/rules/tensor_parts.h"

namespace ravine {
namespace {

constexpr double kAdamEps = 1e-8;

bool is_hidden_matrix(const Param& p) { return p.shape.rank() >= 2 && p.use != Use::table && !p.head; }
bool is_no_hidden_matrix(const Param& p) { return !is_hidden_matrix(p); }

TensorView flat(const TensorView& v) { return view_of(v.data, v.dtype, {v.count()}, v.device); }

class MuonRule : public UpdateRule {
 public:
  explicit MuonRule(const OptimizerOptions& o) : o_(o) {}
  std::vector<StateDeclaration> states() const override {
    return {{.name = "momentum", .of = is_hidden_matrix},
            {.name = "m", .of = is_no_hidden_matrix},
            {.name = "v", .of = is_no_hidden_matrix}};
  }
  Whole sees() const override { return Whole::matrix; }
  void update(Ctx& c, const UpdateViews& v, int64_t step, double lr, double grad_scale) const override {
    if (v.states[0].absent()) return adamw(c, v, step, lr, grad_scale);
    const Tensor x = like(c, v.param);
    c.call(WeightedSum{.y = v.states[0], .x = v.grad, .keep = o_.momentum, .take = (1 - o_.momentum) * grad_scale});
    c.call(Cast{v.states[0], x.view()});
    if (o_.nesterov)
      c.call(WeightedSum{.y = x.view(), .x = v.grad, .keep = o_.momentum, .take = (1 - o_.momentum) * grad_scale});
    const int64_t rows = v.param.shape[-2], columns = v.param.shape[-1];
    const Tensor next = c.empty({rows, columns}, x.dtype(), MemoryKind::workspace);
    const int64_t side = std::min(rows, columns);
    const Tensor gram = c.empty({side, side}, x.dtype(), MemoryKind::workspace), step_matrix = like(c, gram.view());
    for (int64_t i = 0; i < v.param.shape[0]; ++i)
      orthogonalise(c, part(x.view(), i, rows, columns), next.view(), gram.view(), step_matrix.view());
    const double tall = static_cast<double>(rows), wide = static_cast<double>(columns), rate = lr * v.spans[0].lr_mult,
                 factor = o_.adjust_lr_fn == AdjustRate::original ? std::sqrt(std::max(1.0, tall / wide))
                                                                  : 0.2 * std::sqrt(std::max(tall, wide));
    c.call(WeightedSum{.y = v.param, .x = x.view(), .keep = 1 - rate * v.spans[0].weight_decay, .take = -rate * factor});
  }

 private:
  static TensorView part(const TensorView& v, int64_t i, int64_t rows, int64_t columns) {
    return view_of(v.data ? v.as<std::byte>() + i * rows * columns * size_of(v.dtype) : nullptr, v.dtype, {rows, columns},
                   v.device);
  }

  // Replaces x by the result of the iteration. A tall matrix is multiplied from the right by the same symmetric
  // polynomial.
  void orthogonalise(Ctx& c, const TensorView& x, const TensorView& next, const TensorView& gram,
                     const TensorView& polynomial) const {
    const bool tall = x.shape[0] > x.shape[1];
    const double a = o_.ns_coefficients[0], b = o_.ns_coefficients[1], d = o_.ns_coefficients[2];
    c.call(WeightedSum{.y = x, .x = x, .keep = 0, .take = 1 / std::max(norm_of(c, x), o_.eps[0])});
    for (int64_t i = 0; i < o_.ns_steps; ++i) {
      c.call(Matmul{.a = x, .b = x, .bias = {}, .out = gram, .trans_a = tall, .trans_b = !tall});
      c.call(Matmul{.a = gram, .b = gram, .bias = {}, .out = polynomial});
      c.call(WeightedSum{.y = polynomial, .x = gram, .keep = d, .take = b});
      c.call(Matmul{.a = tall ? x : polynomial, .b = tall ? polynomial : x, .bias = {}, .out = next});
      c.call(WeightedSum{.y = x, .x = next, .keep = a});
    }
  }

  void adamw(Ctx& c, const UpdateViews& v, int64_t step, double lr, double grad_scale) const {
    const double t = static_cast<double>(step), b1 = o_.betas[0], b2 = o_.betas[1];
    std::array<double, kStepScalars> scalars{lr, 1 - std::pow(b1, t), 1 - std::pow(b2, t), grad_scale};
    c.call(AdamW{.param = flat(v.param),
                 .grad = flat(v.grad),
                 .m = flat(v.states[1]),
                 .v = flat(v.states[2]),
                 .copy = {},
                 .scalars = view_of(scalars.data(), DType::f64, {kStepScalars}),
                 .spans = v.spans,
                 .beta1 = b1,
                 .beta2 = b2,
                 .eps = kAdamEps});
  }

  const OptimizerOptions& o_;
};

}  // namespace

std::unique_ptr<UpdateRule> muon_rule(const OptimizerOptions& o) { return std::make_unique<MuonRule>(o); }

}  // namespace ravine
