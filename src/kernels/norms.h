// Norms over rows, heads, parts of rows, and rows of length 1. kernels.h defines letters, types and determinism.
#pragma once
#include <cstdint>

#include "kernels/view.h"

namespace ravine {

// RMSNorm (Zhang, Sennrich 2019). If `branch` is set, the residual add runs first:
//   sum = x + branch (stored if `sum` is set);  rstd = 1/sqrt(mean(sum^2) + eps);
//   out = (sum * rstd) * (offset + weight).
// offset 1 with a weight that begins at zero is the norm of Gemma (Google 2024). x, branch, sum, out [N,C]; weight [C];
// rstd [N]. `sum` may be the memory of x. Without branch, sum is absent.
struct RmsNormForward {
  static constexpr const char* name = "rms_norm";
  TensorView x, branch, weight, sum, out, rstd;
  double eps = 1e-6, offset = 0;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("branch", branch, Access::read), f("weight", weight, Access::read), f("sum", sum, Access::write);
    f("out", out, Access::write), f("rstd", rstd, Access::write);
  }
  template <class F>
  void settings(F&& f) const {
    f("eps", eps), f("offset", offset);
  }
  double flops() const { return 4.0 * x.count(); }
};

// The gradients of RmsNormForward, from dout and from `dsum` (optional), the gradient that reaches the normalised sum
// by other paths:
//   h = dout * (offset + weight);  dx = dsum + rstd * (h - xhat * mean(h * xhat)),  xhat = x * rstd;
//   dweight (+)= sum_n dout * xhat.
// x is the normalised sum. dx may be the memory of dsum. `dbranch` (optional) is dx rounded to its own type. dweight
// [C] is optional (frozen); `accumulate` adds to it.
struct RmsNormBackward {
  static constexpr const char* name = "rms_norm_backward";
  TensorView dout, x, weight, rstd, dsum, dx, dbranch, dweight;
  bool accumulate = false;
  double offset = 0;
  template <class F>
  void each(F&& f) const {
    f("dout", dout, Access::read), f("x", x, Access::read), f("weight", weight, Access::read), f("rstd", rstd, Access::read);
    f("dsum", dsum, Access::read), f("dx", dx, Access::write), f("dbranch", dbranch, Access::write);
    f("dweight", dweight, accumulate ? Access::update : Access::write);
  }
  template <class F>
  void settings(F&& f) const {
    f("offset", offset);
  }
  double flops() const { return 10.0 * x.count(); }
};

// LayerNorm (Ba, Kiros, Hinton 2016). If `branch` is set, the residual add runs first:
//   sum = x + branch (stored if `sum` is set);  mean, rstd = 1/sqrt(mean((sum - mean)^2) + eps) of a row;
//   out = (sum - mean) * rstd * weight + bias.
// x, branch, sum, out [N,C]; weight, bias [C]; mean, rstd [N] (optional). `sum` may be the memory of x. Without branch,
// sum is absent.
struct LayerNormForward {
  static constexpr const char* name = "layer_norm";
  TensorView x, branch, weight, bias, sum, out, mean, rstd;
  double eps = 1e-5;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("branch", branch, Access::read), f("weight", weight, Access::read),
        f("bias", bias, Access::read);
    f("sum", sum, Access::write), f("out", out, Access::write), f("mean", mean, Access::write), f("rstd", rstd, Access::write);
  }
  template <class F>
  void settings(F&& f) const {
    f("eps", eps);
  }
  double flops() const { return 8.0 * x.count(); }
};

// The gradients of LayerNormForward. With xhat = (x - mean) * rstd, h = dout * weight:
//   dx = dsum + rstd * (h - mean(h) - xhat * mean(h * xhat));  dweight (+)= sum_n dout * xhat;  dbias (+)= sum_n dout.
// x is the normalised sum; dsum, dbranch, dx as in RmsNormBackward. dweight, dbias [C]: both, or neither (frozen).
struct LayerNormBackward {
  static constexpr const char* name = "layer_norm_backward";
  TensorView dout, x, weight, mean, rstd, dsum, dx, dbranch, dweight, dbias;
  bool accumulate = false;
  template <class F>
  void each(F&& f) const {
    f("dout", dout, Access::read), f("x", x, Access::read), f("weight", weight, Access::read), f("mean", mean, Access::read);
    f("rstd", rstd, Access::read), f("dsum", dsum, Access::read), f("dx", dx, Access::write),
        f("dbranch", dbranch, Access::write);
    f("dweight", dweight, accumulate ? Access::update : Access::write),
        f("dbias", dbias, accumulate ? Access::update : Access::write);
  }
  double flops() const { return 14.0 * x.count(); }
};

// RMSNorm of each head, with one weight for all heads (Dehghani et al. 2023, as in Qwen3). For head h of row n:
//   rstd = 1/sqrt(mean(x^2) + eps),  out = (x * rstd) * weight.
// x, out [N, H*D]; weight [D]; rstd [N,H] (optional).
struct HeadNormForward {
  static constexpr const char* name = "head_norm";
  TensorView x, weight, out, rstd;
  double eps = 1e-6;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("weight", weight, Access::read), f("out", out, Access::write), f("rstd", rstd, Access::write);
  }
  template <class F>
  void settings(F&& f) const {
    f("eps", eps);
  }
  double flops() const { return 4.0 * x.count(); }
};

// The gradients of HeadNormForward: as RmsNormBackward for each head. dweight [D] (optional) is a sum over rows and
// heads.
struct HeadNormBackward {
  static constexpr const char* name = "head_norm_backward";
  TensorView dout, x, weight, rstd, dx, dweight;
  bool accumulate = false;
  template <class F>
  void each(F&& f) const {
    f("dout", dout, Access::read), f("x", x, Access::read), f("weight", weight, Access::read), f("rstd", rstd, Access::read);
    f("dx", dx, Access::write), f("dweight", dweight, accumulate ? Access::update : Access::write);
  }
  double flops() const { return 10.0 * x.count(); }
};

// The weighted dot product of each row of x and y: out[n] = sum_c x[n,c] y[n,c] weight[c]. x, y [N,C]; weight [C]
// (optional); out [N]: f32 (f64 on ref). Used for the RMSNorm of rows whose columns are divided over tensor ranks (OLMo
// 2's norm of q and of k). The sum over ranks runs between RowDot and PartNorm.
struct RowDot {
  static constexpr const char* name = "row_dot";
  TensorView x, y, weight, out;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("y", y, Access::read), f("weight", weight, Access::read), f("out", out, Access::write);
  }
  double flops() const { return 3.0 * x.count(); }
};

// The RMSNorm of rows of which a rank has only some columns: rstd = 1/sqrt(squares / width + eps), out = (x * rstd) *
// weight. squares [N]: of whole rows of `width`. x, out [N,C]; weight [C]; rstd [N] (optional).
struct PartNormForward {
  static constexpr const char* name = "part_norm";
  TensorView x, weight, squares, out, rstd;
  int64_t width = 0;
  double eps = 1e-6;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("weight", weight, Access::read), f("squares", squares, Access::read),
        f("out", out, Access::write);
    f("rstd", rstd, Access::write);
  }
  template <class F>
  void settings(F&& f) const {
    f("width", static_cast<double>(width)), f("eps", eps);
  }
  double flops() const { return 2.0 * x.count(); }
};

// The gradients of PartNormForward. With xhat = x * rstd and dots [N] = sum of dout * weight * x over whole rows:
//   dx = rstd * (dout * weight - xhat * (dots * rstd / width));  dweight (+)= sum_n dout * xhat.
// dweight [C] is optional (frozen).
struct PartNormBackward {
  static constexpr const char* name = "part_norm_backward";
  TensorView dout, x, weight, rstd, dots, dx, dweight;
  int64_t width = 0;
  bool accumulate = false;
  template <class F>
  void each(F&& f) const {
    f("dout", dout, Access::read), f("x", x, Access::read), f("weight", weight, Access::read), f("rstd", rstd, Access::read);
    f("dots", dots, Access::read), f("dx", dx, Access::write),
        f("dweight", dweight, accumulate ? Access::update : Access::write);
  }
  template <class F>
  void settings(F&& f) const {
    f("width", static_cast<double>(width));
  }
  double flops() const { return 7.0 * x.count(); }
};

// Scales each row to length 1, as torch.nn.functional.normalize: out[v] = x[v] / max(|x[v]|, 1e-12). x, out [V,C]; in
// place allowed.
struct UnitRowsForward {
  static constexpr const char* name = "unit_rows";
  TensorView x, out;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("out", out, Access::write);
  }
  double flops() const { return 3.0 * x.count(); }
};

// The gradient of UnitRowsForward. With r = 1 / max(|x|, 1e-12), y = x r: dx (+)= r (dout - y (y . dout)), or r dout if
// |x| is below 1e-12.
struct UnitRowsBackward {
  static constexpr const char* name = "unit_rows_backward";
  TensorView dout, x, dx;
  bool accumulate = false;
  template <class F>
  void each(F&& f) const {
    f("dout", dout, Access::read), f("x", x, Access::read), f("dx", dx, accumulate ? Access::update : Access::write);
  }
  double flops() const { return 6.0 * x.count(); }
};
inline constexpr double kLeastNorm = 1e-12;

}  // namespace ravine
