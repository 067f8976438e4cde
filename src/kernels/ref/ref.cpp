#include "kernels/ref/ref.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace ravine::ref {
namespace {

// Returns x if it is a float, else the neighbouring float whose last bit is 1: rounding that to 16 bits equals rounding
// x.
float to_odd(double x) {
  float f = static_cast<float>(x);
  if (f == x || !std::isfinite(f)) return f;
  uint32_t u = std::bit_cast<uint32_t>(f);
  if (std::fabs(f) > std::fabs(x)) --u;
  return std::bit_cast<float>(u | 1u);
}

template <class T>
double widen(T x) {
  if constexpr (sizeof(T) == 2)
    return static_cast<float>(x);
  else
    return x;
}

template <class T>
T rounded(double x) {
  if constexpr (sizeof(T) == 2)
    return T(to_odd(x));
  else
    return static_cast<T>(x);
}

}  // namespace

double round_to(DType t, double x) {
  return visit_float(t, [&](auto zero) { return widen(rounded<decltype(zero)>(x)); });
}

void load(const TensorView& v, int64_t row, int64_t col, int64_t n, double* out) {
  visit_float(v.dtype, [&](auto zero) {
    const auto* p = v.row<decltype(zero)>(row) + col;
    for (int64_t i = 0; i < n; ++i) out[i] = widen(p[i]);
  });
}

void store(const double* in, const TensorView& v, int64_t row, int64_t col, int64_t n) {
  visit_float(v.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* p = v.row<T>(row) + col;
    for (int64_t i = 0; i < n; ++i) p[i] = rounded<T>(in[i]);
  });
}

std::vector<double> load_row(const TensorView& v, int64_t row) {
  std::vector<double> out(v.cols());
  load(v, row, 0, v.cols(), out.data());
  return out;
}

void store_row(const std::vector<double>& in, const TensorView& v, int64_t row) { store(in.data(), v, row, 0, v.cols()); }

Doubles::Doubles(const TensorView& v) : data_(v.as<double>()), stride_(v.stride) {
  if (v.dtype == DType::f64) return;
  owned_.resize(v.count());
  stride_ = v.cols();
  each_row(v.rows(), v.cols(), [&](int64_t i) { load(v, i, 0, stride_, owned_.data() + i * stride_); });
  data_ = owned_.data();
}

double log_sum_exp(const double* row, int64_t n) {
  double top = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t i = 0; i < n; ++i) top = std::isnan(row[i]) ? row[i] : std::max(top, row[i]);
  if (std::isinf(top) && top < 0) return top;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(row[i] - top);
  return top + std::log(sum);
}

double soft_cap(double x, double cap) { return cap == 0 ? x : cap * std::tanh(x / cap); }

double soft_cap_slope(double y, double cap) {
  if (cap == 0) return 1;
  double t = y / cap;
  return (1 - t) * (1 + t);
}

void check(const char* op, const char* what, const TensorView& v, int64_t rows, int64_t cols) {
  require(!v.absent() && v.rows() == rows && v.cols() == cols, "{}: {} is {}, expected {} rows of {}", op, what, v.shape.text(),
          rows, cols);
  require(is_float(v.dtype), "{}: {} is {}, expected a floating type", op, what, name(v.dtype));
}

void check_optional(const char* op, const char* what, const TensorView& v, int64_t rows, int64_t cols) {
  if (!v.absent()) check(op, what, v, rows, cols);
}

void check_vector(const char* op, const char* what, const TensorView& v, int64_t n) {
  require(!v.absent() && v.count() == n && v.contiguous(), "{}: {} is {}, expected {} packed elements", op, what,
          v.shape.text(), n);
  require(is_float(v.dtype), "{}: {} is {}, expected a floating type", op, what, name(v.dtype));
}

double row_weight(const TensorView& weights, int64_t row) {
  double w = 1;
  if (!weights.absent()) load(weights, 0, row, 1, &w);
  return w;
}

void check_integers(const char* op, const char* what, const TensorView& v, DType t, int64_t n) {
  require(!v.absent() && v.count() == n && v.contiguous(), "{}: {} is {}, expected {} packed elements", op, what,
          v.shape.text(), n);
  require(v.dtype == t, "{}: {} is {}, expected {}", op, what, name(v.dtype), name(t));
}

}  // namespace ravine::ref
