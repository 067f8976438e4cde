// The figures of a tensor in a dump: two checksums of its elements, and statistics.
//
// Both checksums are sums modulo 2^64 over the elements i = 0, 1, .. in row order, with their bits b_i as an unsigned
// number. order_free sums mix(b_i + c), and does not depend on the order of elements. positional sums mix(b_i + c + (i
// + 1) g), and depends on it. The stride of rows in memory has no effect. c = 0x243f6a8885a308d3, g =
// 0x9e3779b97f4a7c15. mix multiplies twice by 0xd6e8feb86659fd93; before, between and after, x becomes x ^ (x >> 32).
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/view.h"

namespace ravine {

// The figures of a tensor: number of elements, two checksums, and optional statistics.
struct TensorFigures {
  int64_t count = 0;
  uint64_t order_free = 0, positional = 0;
  bool has_statistics = false;  // true if the values below are set
  // rough: true for figures in another program's dump (foreign_tensor.h). Then only count, min, max, mean and l2 are
  // known, as that program has rounded them, and the checksums are of these figures. no_mean, no_l2: that program has
  // no such figure; l2 is then the least value that the other figures allow.
  bool rough = false, no_mean = false, no_l2 = false;
  int64_t finite = 0, nan = 0, plus_inf = 0, minus_inf = 0, zero = 0;
  // Statistics of the finite elements, 0 if there are none. std: of the population. l1: sum of absolute values. l2:
  // square root of the sum of squares. Sums are f64, over blocks of 512 elements.
  double min = 0, max = 0, abs_max = 0, mean = 0, std = 0, l1 = 0, l2 = 0;

  bool same_bits(const TensorFigures& o) const {
    return count == o.count && order_free == o.order_free && positional == o.positional && rough == o.rough;
  }
  bool all_finite() const { return finite == count; }
};

// Returns the figures of a tensor. statistics: false computes the checksums only. Reads memory once, in parallel_for;
// the result does not depend on the threads. Packed weights are read as bytes.
TensorFigures figures_of(const TensorView& view, bool statistics);

std::vector<std::byte> packed(const TensorView& view);  // returns a copy of the elements, with contiguous rows

}  // namespace ravine
