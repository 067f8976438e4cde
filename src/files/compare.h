// Comparison of two arrays of elements.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace ravine {

// The result of compare: the differences between two arrays a and b. Values are compared as f64 (i64 with i64:
// exactly), ULP distances as f32. An element that is NaN on both sides has distance 0.
struct Difference {
  int64_t count = 0;
  int64_t differing = 0;   // elements with different bits; with different values if the types differ
  int64_t nan_on_one = 0;  // elements that are NaN on one side only; their distance is infinite
  int64_t nan_on_both = 0;
  double max_abs = 0;  // largest |a - b| of an element
  double max_rel = 0;  // largest |a - b| / max(|a|, |b|)
  // Largest ULP distance: the number of steps between neighbours in f32 from one value to the other; 0 and -0 have
  // distance 0.
  int64_t max_ulp = 0;
  double cosine = 1;  // a.b / (|a| |b|) of the elements that are finite on both sides; 1 if both are zero, 0 if one is
  int64_t at = -1;    // index of the first element with distance max_abs; -1 if no element differs
};

// Compares two arrays with parallel_for; the result does not depend on the number of threads. Sizes must be whole
// elements, the same number on both sides; else Error.
Difference compare(DType a_type, std::span<const std::byte> a, DType b_type, std::span<const std::byte> b);

}  // namespace ravine
