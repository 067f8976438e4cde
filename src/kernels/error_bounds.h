// How far what a kernel writes may be off, in L2 and absolute, by the mathematics of the kernel.
//
// own: its own roundings. One of the stored type, u |out|; and those of the arithmetic, v (f32; f64 where all is f64) times a
// few, or times 1 + sqrt(K) / 2 of a sum of K terms (signs of roundings are random: Higham and Mary 2019), times the L2 size of
// what is rounded there: |a| |b| of a product, |x| sqrt(rows) of a sum over rows, and so on.
// inherited: over what it reads, the error |d| of each times a bound L of the derivative: rms_norm has max rstd max|weight|,
// swiglu 1.1 max|up| and max|gate|. Second orders are left out, but for products.
//
// The figures are those that a dump has of each tensor. What they do not tell is replaced, here and nowhere else:
//   offset of a norm's weight       at most 1
//   rows of a matrix                as long as the largest element allows; where a short row counts (unit_rows, a norm that
//                                   writes no rstd) all are as long as the mean row
//   an error in k, v, a table       spread over it like its values: no element is off by more than max / rms of the values
//                                   times the mean error
//   errors of queries               independent of one another where attention's backward pass sums over them
//   arithmetic of routers           f64, whatever they read
//   scale of attention, soft_cap    1 / sqrt(head size), 1
//   scale of embedding, dropout, gradients of a loss: from what is written and read, which it joins
//   coefficients of an update       decay at most 1, and 1 of weighted_sum; an element whose gradient is rounding alone moves by
//                                   all of lr either way, so where gradient or moments are off at all, 2 lr sqrt(n)
// Rough, by relative errors, since statistics do not tell more: loss_head's gradients (labels with a probability near 1 would
// need more), nf4_matmul (scales of blocks are not seen), factored_scale, root_scale, times_root, largest_ratio, cadam's
// numbers. Integers have no bound: a choice of experts that flips is a difference, wherever it comes from; pack_signs alone
// lets as many bits flip as the error of its input makes likely.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "base/dtype.h"

namespace ravine {

struct CallTensor {
  std::string_view name;  // of the argument struct
  bool output = false;    // what an update reads and writes stands here twice
  DType type = DType::f32;
  double norm = 0, largest = 0;  // L2, and of the absolute values
  int64_t count = 0, columns = 1;
  double off = 0;                       // of what is read: L2 norm of its error
  std::span<const double> values = {};  // where known; those of `scalars` are used
};

struct ErrorBound {
  double own = 0, inherited = 0;
};

double rounding_of(DType type);  // u, half of epsilon; of integers 0
bool has_error_bound(std::string_view kernel);
// Of `written`, one of `call`. Of a kernel that nobody knows: 256 u |out|, and 8 times the largest relative error read.
ErrorBound error_bound(std::string_view kernel, std::span<const CallTensor> call, const CallTensor& written);

inline constexpr double kUnknownCall = 256, kInherited = 8;

}  // namespace ravine
