// Elementwise kernels: sums, products, conversions, constants; and the sum of squares. kernels.h defines letters, types
// and determinism.
#pragma once
#include "base/exact_sum.h"
#include "kernels/view.h"

namespace ravine {

// The elementwise sum: out = a + b; out may be the memory of a. Types may differ.
struct Add {
  static constexpr const char* name = "add";
  TensorView a, b, out;
  template <class F>
  void each(F&& f) const {
    f("a", a, Access::read), f("b", b, Access::read), f("out", out, Access::write);
  }
  double flops() const { return static_cast<double>(out.count()); }
};

// The scaled elementwise product: out = scale * (a * b), rounded once if scale is 1 or -1. Without b: scale * a. out
// may be the memory of a or b. Types may differ.
struct Multiply {
  static constexpr const char* name = "multiply";
  TensorView a, b, out;
  double scale = 1;
  template <class F>
  void each(F&& f) const {
    f("a", a, Access::read), f("b", b, Access::read), f("out", out, Access::write);
  }
  template <class F>
  void settings(F&& f) const {
    f("scale", scale);
  }
  double flops() const { return static_cast<double>(out.count()); }
};

// Conversion to another type: out = x, rounded to nearest even to the type of out. If `round_to` is narrower, values
// are first rounded to that type (simulated precision).
struct Cast {
  static constexpr const char* name = "cast";
  TensorView x, out;
  DType round_to = DType::f64;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("out", out, Access::write);
  }
  double flops() const { return 0; }
};

struct Fill {
  static constexpr const char* name = "fill";
  TensorView out;
  double value = 0;
  template <class F>
  void each(F&& f) const {
    f("out", out, Access::write);
  }
  template <class F>
  void settings(F&& f) const {
    f("value", value);
  }
  double flops() const { return 0; }
};

// The sum of squares: result += sum of x^2. Partial sums over runs of 1024 elements are rounded to double; all else is
// exact.
struct SumSquares {
  static constexpr const char* name = "sum_squares";
  TensorView x;  // any shape, contiguous
  ExactSum* result = nullptr;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read);
  }
  double flops() const { return 2.0 * x.count(); }
};

}  // namespace ravine
