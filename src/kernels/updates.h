// Update rules of optimizers, on flat ranges of parameters. kernels.h defines letters, types and determinism.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "kernels/view.h"

namespace ravine {

// A range of elements of a flat buffer that is updated with one learning-rate factor and one weight decay.
struct UpdateSpan {
  int64_t begin = 0, count = 0;
  double lr_mult = 1, weight_decay = 0;
};

// Calls f(name, number) for the settings of an update: the largest weight decay and the largest learning-rate factor of
// its spans.
template <class F>
void span_settings(std::span<const UpdateSpan> spans, F&& f) {
  double decay = 0, lr_mult = 0;
  for (const UpdateSpan& s : spans) decay = std::max(decay, s.weight_decay), lr_mult = std::max(lr_mult, s.lr_mult);
  f("weight_decay", decay), f("lr_mult", lr_mult);
}

// Indices of the scalars of an optimizer step, which are in one f64 tensor: [lr, 1-b1^t, 1-b2^t, gradient scale
// (clipping)].
enum StepScalar { kLr, kBias1, kBias2, kGradScale, kStepScalars };

// One update of AdamW (Loshchilov, Hutter 2019), as in torch.optim. g' = g * gradient scale;
//   p -= lr wd p (decoupled), or g' += wd p (`l2`: Adam);  m = b1 m + (1-b1) g';  v = b2 v + (1-b2) g'^2;
//   p -= lr (m / bias1) / (sqrt(v / bias2) + eps).   lr = lr scalar * lr_mult.
// cpu computes 1 - lr wd in f32, as torch does, and rounds p once (torch: twice). The distance between two f32 training
// curves is nearly all from the rounding of p. Three formulas were compared by this distance; the chosen one was
// measured over twelve layouts (tools/golden/curve_layouts.py, tools/logs/curve_layouts.log). All tensors are flat,
// contiguous and of one length. `copy` (optional) gets p in 16 bits.
struct AdamW {
  static constexpr const char* name = "adamw";
  TensorView param, grad, m, v, copy, scalars;
  std::span<const UpdateSpan> spans;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  bool l2 = false;
  template <class F>
  void each(F&& f) const {
    f("param", param, Access::update), f("grad", grad, Access::read), f("m", m, Access::update), f("v", v, Access::update);
    f("copy", copy, Access::write), f("scalars", scalars, Access::read);
  }
  template <class F>
  void settings(F&& f) const {
    f("beta1", beta1), f("beta2", beta2), f("eps", eps), f("l2", static_cast<double>(l2)), span_settings(spans, f);
  }
  double flops() const { return 12.0 * param.count(); }
};

// One update of SGD, as torch.optim.SGD. g' = g * gradient scale + wd p;
//   buffer = momentum * buffer + (1-dampening) g' (the first step: buffer = g');
//   p -= lr * (nesterov ? g' + momentum * buffer : buffer). Without momentum, buffer is absent and p -= lr g'.
struct Sgd {
  static constexpr const char* name = "sgd";
  TensorView param, grad, buffer, copy, scalars;
  std::span<const UpdateSpan> spans;
  double momentum = 0, dampening = 0;
  bool nesterov = false, first = false;
  template <class F>
  void each(F&& f) const {
    f("param", param, Access::update), f("grad", grad, Access::read), f("buffer", buffer, Access::update);
    f("copy", copy, Access::write), f("scalars", scalars, Access::read);
  }
  template <class F>
  void settings(F&& f) const {
    f("momentum", momentum), f("dampening", dampening), f("nesterov", static_cast<double>(nesterov)), span_settings(spans, f);
  }
  double flops() const { return 5.0 * param.count(); }
};

// One update of Lion (Chen et al. 2023), as in DeepSpeed's lion kernels. g' = g * gradient scale; c = b1 m + (1-b1) g';
//   p = (1 - lr wd) p - lr sign(c), by the sign bit: +0 is positive;  m = b2 m + (1-b2) g'.
struct Lion {
  static constexpr const char* name = "lion";
  TensorView param, grad, m, copy, scalars;
  std::span<const UpdateSpan> spans;
  double beta1 = 0.9, beta2 = 0.99;
  template <class F>
  void each(F&& f) const {
    f("param", param, Access::update), f("grad", grad, Access::read), f("m", m, Access::update);
    f("copy", copy, Access::write), f("scalars", scalars, Access::read);
  }
  template <class F>
  void settings(F&& f) const {
    f("beta1", beta1), f("beta2", beta2), span_settings(spans, f);
  }
  double flops() const { return 9.0 * param.count(); }
};

// One update of Adagrad, as torch.optim.Adagrad. g' = g * gradient scale + wd p; sum += g'^2 (the first step: initial +
// g'^2);
//   p -= lr g' / (sqrt(sum) + eps). The lr scalar already includes the lr decay.
struct Adagrad {
  static constexpr const char* name = "adagrad";
  TensorView param, grad, sum, copy, scalars;
  std::span<const UpdateSpan> spans;
  double eps = 1e-10, initial = 0;
  bool first = false;
  template <class F>
  void each(F&& f) const {
    f("param", param, Access::update), f("grad", grad, Access::read), f("sum", sum, Access::update);
    f("copy", copy, Access::write), f("scalars", scalars, Access::read);
  }
  template <class F>
  void settings(F&& f) const {
    f("eps", eps), f("initial", initial), span_settings(spans, f);
  }
  double flops() const { return 8.0 * param.count(); }
};

// Parts of rules that are not elementwise. Views are packed and have one number of elements, unless a comment says
// otherwise. On cpu grad has any type that Lanes loads; all others are f32.

// The weighted sum: y = keep y + take x. x may be y.
struct WeightedSum {
  static constexpr const char* name = "weighted_sum";
  TensorView y, x;
  double keep = 1, take = 1;
  template <class F>
  void each(F&& f) const {
    f("y", y, Access::update), f("x", x, Access::read);
  }
  template <class F>
  void settings(F&& f) const {
    f("keep", keep), f("take", take);
  }
  double flops() const { return 3.0 * y.count(); }
};

// Computes the update direction of Lamb (You et al. 2020) and of 1-bit Adam, and updates its moments. g' = g *
// grad_scale; m = b1 m + (1-b1) g';
//   v = b2 v + (1-b2) g'^2;  out = m / (sqrt(v) + eps) + wd p. A beta of 1 does not change its moment.
struct AdamDirection {
  static constexpr const char* name = "adam_direction";
  TensorView param, grad, m, v, out;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0, grad_scale = 1;
  template <class F>
  void each(F&& f) const {
    f("param", param, Access::read), f("grad", grad, Access::read), f("m", m, Access::update), f("v", v, Access::update);
    f("out", out, Access::write);
  }
  template <class F>
  void settings(F&& f) const {
    f("beta1", beta1), f("beta2", beta2), f("eps", eps), f("weight_decay", weight_decay);
  }
  double flops() const { return 11.0 * param.count(); }
};

// Updates the factored second moments of Adafactor (Shazeer and Stern 2018), by rows and columns of matrices x [.., R,
// C]. With s = (scale x - minus)^2 + eps: row [.., R] = decay row + (1-decay) mean of s over columns, and col [.., C]
// the same over rows. minus (optional) has the shape of x. Sums over rows run in chunks of 256, in order.
struct FactoredMoments {
  static constexpr const char* name = "factored_moments";
  TensorView x, minus, row, col;
  double decay = 0, eps = 1e-30, scale = 1;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("minus", minus, Access::read), f("row", row, Access::update), f("col", col, Access::update);
  }
  double flops() const { return 5.0 * x.count(); }
};

// Divides by the roots of factored second moments (FactoredMoments): out = scale x / sqrt(row col / mean(row)), for
// each matrix of x [.., R, C]. out may be x.
struct FactoredScale {
  static constexpr const char* name = "factored_scale";
  TensorView x, row, col, out;
  double scale = 1;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("row", row, Access::read), f("col", col, Access::read), f("out", out, Access::write);
  }
  double flops() const { return 2.0 * x.count(); }
};

// Adafactor's second moments of vectors, and the division by their roots: square = decay square + (1-decay) ((scale
// x)^2 + eps); out = scale x / sqrt(square).
struct RootScale {
  static constexpr const char* name = "root_scale";
  TensorView x, square, out;
  double decay = 0, eps = 1e-30, scale = 1;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("square", square, Access::update), f("out", out, Access::write);
  }
  double flops() const { return 8.0 * x.count(); }
};

// One update of ModelLink's cadam, row by row of x [.., C]. The first moment is f16 numbers q [.., C] times one scale s
// [..] (f32).
//   m = b q s + (1-b) g * grad_scale;  s = max|m| / 65503 + 1e-8;  q = f16(clamp(m / s, -65503, 65503));
//   p = (1 - lr wd) p - lr sign(m), sign(0) = 0.
struct Cadam {
  static constexpr const char* name = "cadam";
  TensorView param, grad, q, s;
  double beta = 0.9, lr = 0, weight_decay = 0, grad_scale = 1;
  template <class F>
  void each(F&& f) const {
    f("param", param, Access::update), f("grad", grad, Access::read), f("q", q, Access::update), f("s", s, Access::update);
  }
  double flops() const { return 9.0 * param.count(); }
};

// Multiplies by roots, in place: x *= sqrt(v) + eps.
struct TimesRoot {
  static constexpr const char* name = "times_root";
  TensorView x, v;
  double eps = 1e-8;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::update), f("v", v, Access::read);
  }
  double flops() const { return 3.0 * x.count(); }
};

// Writes the largest (sqrt(v) + eps) / (sqrt(fresh) + eps) to `largest` (f64, one number).
struct LargestRatio {
  static constexpr const char* name = "largest_ratio";
  TensorView v, fresh, largest;
  double eps = 1e-8;
  template <class F>
  void each(F&& f) const {
    f("v", v, Access::read), f("fresh", fresh, Access::read), f("largest", largest, Access::write);
  }
  double flops() const { return 6.0 * v.count(); }
};

// Compresses numbers to their signs, one bit each. Bit i of bits (u8, count / 8; the first of eight is the highest) is
// 1 if x[i] >= 0.
//   x[i] -= scale * sign(x[i]) is the error that the bits leave. Zero is positive.
struct PackSigns {
  static constexpr const char* name = "pack_signs";
  TensorView x, bits;
  double scale = 0;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::update), f("bits", bits, Access::write);
  }
  double flops() const { return 2.0 * x.count(); }
};

// Expands the signs of PackSigns to numbers: out (+)= scale * sign. `bits` has at least as many signs as `out` has
// numbers.
struct UnpackSigns {
  static constexpr const char* name = "unpack_signs";
  TensorView bits, out;
  double scale = 0;
  bool accumulate = false;
  template <class F>
  void each(F&& f) const {
    f("bits", bits, Access::read), f("out", out, accumulate ? Access::update : Access::write);
  }
  double flops() const { return 1.0 * out.count(); }
};

}  // namespace ravine
