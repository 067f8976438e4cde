// What a dump keeps of a tensor: two checksums of its elements, and statistics.
//
// Both checksums are sums modulo 2^64 over the elements i = 0, 1, .. in the order of rows, of their bits b_i as an unsigned
// number: of mix(b_i + c), which no order of the elements changes, and of mix(b_i + c + (i + 1) g), which any does. Neither
// knows where in memory rows lie. c = 0x243f6a8885a308d3, g = 0x9e3779b97f4a7c15; mix multiplies twice by 0xd6e8feb86659fd93,
// and before, between and after x becomes x ^ (x >> 32).
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/view.h"

namespace ravine {

struct TensorFigures {
  int64_t count = 0;
  uint64_t order_free = 0, positional = 0;
  bool has_statistics = false;  // then what follows is known
  // Of another program's dump (foreign_tensor.h): count, min, max, mean and l2 alone are known, as that program has rounded them,
  // and the checksums are of these figures. Where it has no mean or l2, l2 is the least that the others allow.
  bool rough = false, no_mean = false, no_l2 = false;
  int64_t finite = 0, nan = 0, plus_inf = 0, minus_inf = 0, zero = 0;
  // Of the finite elements, 0 where there is none: std of the population; l1 the sum of absolute values, l2 the root of the sum
  // of squares. Sums are in f64, over blocks of 512 elements.
  double min = 0, max = 0, abs_max = 0, mean = 0, std = 0, l1 = 0, l2 = 0;

  bool same_bits(const TensorFigures& o) const {
    return count == o.count && order_free == o.order_free && positional == o.positional && rough == o.rough;
  }
  bool all_finite() const { return finite == count; }
};

// Reads memory once, in parallel_for; the result does not depend on threads. Bytes of packed weights count as numbers.
TensorFigures figures_of(const TensorView& view, bool statistics);

std::vector<std::byte> packed(const TensorView& view);  // rows side by side

}  // namespace ravine
