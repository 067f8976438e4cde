// Matrix products, and sums over rows, for the gradients of biases. kernels.h defines letters, types and determinism.
#pragma once
#include <cstdint>

#include "kernels/nf4.h"

namespace ravine {

// A matrix product: out (+)= op(a) op(b) + bias. op(a) is a, or its transpose if trans_a; op(b) likewise. op(a) [M,K],
// op(b) [K,N], out [M,N], bias [N] (optional; any floating type). a and b have one type, or b is bf16 (frozen weights).
// out has the type of a, or f32. 16-bit operands are accumulated in f32. `accumulate` adds to out. With
// `tokens_reduced` (weight gradients: K counts tokens) the reduction runs in chunks of at most 1024 of K, in order.
struct Matmul {
  static constexpr const char* name = "matmul";
  TensorView a, b, bias, out;
  bool trans_a = false, trans_b = false, accumulate = false, tokens_reduced = false;
  int64_t m() const { return out.rows(); }
  int64_t n() const { return out.cols(); }
  int64_t k() const { return trans_a ? a.rows() : a.cols(); }
  template <class F>
  void each(F&& f) const {
    f("a", a, Access::read), f("b", b, Access::read), f("bias", bias, Access::read);
    f("out", out, accumulate ? Access::update : Access::write);
  }
  double flops() const { return 2.0 * m() * n() * k(); }
};

// A matrix product with a weight in blocks of 4 bits (NF4): out (+)= a op(w) + bias, with w [R,C]. op(w) is w^T with
// trans_w, else w. Values of w are rounded to the type of a. A product decodes one panel of w at a time. Types, sums
// and accumulate as in Matmul.
struct Nf4Matmul {
  static constexpr const char* name = "nf4_matmul";
  TensorView a;
  Nf4View w;
  TensorView bias, out;
  bool trans_w = false, accumulate = false;
  int64_t m() const { return out.rows(); }
  int64_t n() const { return out.cols(); }
  int64_t k() const { return a.cols(); }
  template <class F>
  void each(F&& f) const {
    f("a", a, Access::read), f("w", w.bytes, Access::read), f("bias", bias, Access::read);
    f("out", out, accumulate ? Access::update : Access::write);
  }
  double flops() const { return 2.0 * m() * n() * k(); }
};

// The sum over rows, for the gradient of a bias: out[c] (+)= sum_n x[n,c]. out [C], at least f32.
struct SumRows {
  static constexpr const char* name = "sum_rows";
  TensorView x, out;
  bool accumulate = false;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("out", out, accumulate ? Access::update : Access::write);
  }
  double flops() const { return static_cast<double>(x.count()); }
};

}  // namespace ravine
