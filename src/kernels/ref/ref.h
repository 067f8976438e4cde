// The reference backend: every kernel as plain loops in double, for any mix of f64, f32, bf16, f16. Inputs are
// converted to double; results are rounded once when stored. Sums run in index order, so threads do not change results.
// Scratch memory is local.
#pragma once
#include <vector>

#include "base/parallel.h"
#include "kernels/kernels.h"

namespace ravine::ref {

// Returns the reference kernel for an argument struct. Each one is defined in the file of its kernel.
template <class Args>
Kernel<Args> kernel_of();

template <class Args>
Kernel<Args> entry(void (*run)(const Args&, void*)) {
  return {run, [](const Args&, int) -> int64_t { return 0; }};
}

// Returns x rounded once, to nearest even, to type t (a floating type).
double round_to(DType t, double x);
inline bool is_16_bit(DType t) { return t == DType::bf16 || t == DType::f16; }
// Returns a factor of a product as the arithmetic reads it: 16-bit arithmetic rounds it to its type; f32 and f64 keep
// the double.
inline double round_factor(DType t, double x) { return is_16_bit(t) ? round_to(t, x) : x; }

// load reads n elements of a row of a view, from column `col` on, as doubles; store writes doubles to them.
void load(const TensorView& v, int64_t row, int64_t col, int64_t n, double* out);
void store(const double* in, const TensorView& v, int64_t row, int64_t col, int64_t n);
std::vector<double> load_row(const TensorView& v, int64_t row = 0);
void store_row(const std::vector<double>& in, const TensorView& v, int64_t row = 0);

// The elements of a view as doubles: the memory of the view if it is f64, else a converted copy. Must not outlive the
// view.
class Doubles {
 public:
  explicit Doubles(const TensorView& v);
  const double* row(int64_t i) const { return data_ + i * stride_; }
  int64_t stride() const { return stride_; }

 private:
  std::vector<double> owned_;
  const double* data_;
  int64_t stride_;
};

// Calls f(i) for each i in [0, n), in parallel. `cost`: elements that one call processes; a thread takes blocks of
// about 16384 elements.
template <class F>
void each_row(int64_t n, int64_t cost, F&& f) {
  int64_t block = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, cost));
  parallel_for(ceil_div(n, block), [&](int64_t b) {
    for (int64_t i = b * block, end = std::min(n, i + block); i < end; ++i) f(i);
  });
}

// A matrix of doubles with any two strides.
struct Operand {
  const double* data;
  int64_t row_stride, col_stride;
  Operand transposed() const { return {data, col_stride, row_stride}; }
};
// Multiplies matrices of doubles: out [m,n] (rows `stride` apart) += a [m,k] b [k,n]; k in order, starting from out
// (multiply.cpp).
void multiply(int64_t m, int64_t n, int64_t k, Operand a, Operand b, double* out, int64_t stride);

// Returns log(sum(exp(row))), computed relative to the largest; -inf for an empty row.
double log_sum_exp(const double* row, int64_t n);

// soft_cap returns y = cap tanh(x / cap); soft_cap_slope returns dy / dx from y. With cap 0, y = x.
double soft_cap(double x, double cap);
double soft_cap_slope(double y, double cap);

// gelu_tanh returns 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), gelu_tanh_slope its derivative.
double gelu_tanh(double x);
double gelu_tanh_slope(double x);

// Checks that v has a floating type and the shape [rows, cols]; else an Error. `op` and `what` name it in the message.
void check(const char* op, const char* what, const TensorView& v, int64_t rows, int64_t cols);
void check_optional(const char* op, const char* what, const TensorView& v, int64_t rows, int64_t cols);  // or absent
// Checks that v is a contiguous vector of n elements of a floating type.
void check_vector(const char* op, const char* what, const TensorView& v, int64_t n);
double row_weight(const TensorView& weights, int64_t row);  // 1 if absent
void check_integers(const char* op, const char* what, const TensorView& v, DType t, int64_t n);

// The attention mask of a segment: keys [first(i), last(i)) are visible to query row i.
struct Mask {
  int64_t q_count, k_count;
  bool causal;
  int64_t window;
  int64_t position(int64_t i) const { return k_count - q_count + i; }
  int64_t first(int64_t i) const { return window > 0 ? std::max<int64_t>(0, position(i) - window + 1) : 0; }
  int64_t last(int64_t i) const { return causal ? std::min(k_count, position(i) + 1) : k_count; }
};

}  // namespace ravine::ref
