// Bounds of the error of each tensor that a kernel writes: the absolute L2 norm, from the mathematics of the kernel.
//
// own: the roundings of the kernel itself. First, the rounding to the stored type, u |out|. Second, the roundings of
// the arithmetic. Their unit v is u of f32, or u of f64 if all tensors are f64. The factor is a few, or 1 + sqrt(K) /
// 2 for a sum of K terms, since the signs of roundings are random (Higham and Mary 2019). A second factor is the L2
// norm of the rounded values: |a| |b| of a product, |x| sqrt(rows) of a sum over rows, and so on.
//
// inherited: the errors of the inputs. For each input it is the error |d| times a bound L of the derivative: rms_norm
// has max rstd max|weight|, swiglu 1.1 max|up| and max|gate|. Second orders are ignored, except for products.
//
// The inputs are the figures that a dump has for each tensor. This room replaces figures that a dump does not have.
//   offset of a norm's weight       at most 1.
//   rows of a matrix                as long as the largest element allows. If a short row matters (unit_rows, a norm
//                                   that writes no rstd), all rows are as long as the mean row.
//   an error in k, v, a table       spread over it like its values. The error of an element is at most max / rms of
//                                   the values times the mean error.
//   errors of queries               independent of one another if attention's backward pass sums over them.
//   arithmetic of routers           f64, for any input type.
//   scale of attention, soft_cap    1 / sqrt(head size), 1.
//   scale of embedding, dropout, gradients of a loss: from the ratio of written and read values.
//   coefficients of an update       decay at most 1, and 1 of weighted_sum. An element whose gradient is only rounding
//                                   moves by lr in either direction. So if gradient or moments have an error, the
//                                   bound is 2 lr sqrt(n).
// Some bounds are rough and from relative errors, since the statistics do not allow more: loss_head's gradients (labels
// with a probability near 1 would need more); nf4_matmul (the scales of blocks are unknown); factored_scale,
// root_scale, times_root, largest_ratio, cadam's numbers. Integers have no bound: a different choice of experts is a
// difference, from any cause. Only pack_signs allows as many different bits as the error of its input makes likely.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "base/dtype.h"

namespace ravine {

struct CallTensor {
  std::string_view name;  // in the argument struct
  bool output = false;    // a tensor that an update reads and writes is listed twice
  DType type = DType::f32;
  double norm = 0, largest = 0;  // L2 norm, and largest absolute value
  int64_t count = 0, columns = 1;
  double off = 0;                       // of an input: L2 norm of its error
  std::span<const double> values = {};  // if known; only the values of `scalars` are used
};

struct ErrorBound {
  double own = 0, inherited = 0;
};

double rounding_of(DType type);  // u, half of epsilon; 0 for integers
bool has_error_bound(std::string_view kernel);
// Returns the bound of the error of `written`, a tensor that a kernel call wrote. `call`: all tensors of the call. For
// an unknown kernel: 256 u |out|, and 8 times the largest relative error of its inputs.
ErrorBound error_bound(std::string_view kernel, std::span<const CallTensor> call, const CallTensor& written);

inline constexpr double kUnknownCall = 256, kInherited = 8;

}  // namespace ravine
