// How far two runs of elements are apart.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace ravine {

// Values are compared as f64 (two i64 exactly), ULP distances as f32. An element that is NaN on both sides has distance 0.
struct Difference {
  int64_t count = 0;
  int64_t differing = 0;   // elements with other bits; where the types differ, with another value
  int64_t nan_on_one = 0;  // elements that are NaN on one side only; they count as infinitely far
  int64_t nan_on_both = 0;
  double max_abs = 0;   // |a - b|
  double max_rel = 0;   // |a - b| / max(|a|, |b|)
  int64_t max_ulp = 0;  // steps between the two as f32; 0 and -0 are 0 apart
  double cosine = 1;    // a.b / (|a| |b|); of elements that are finite on both sides; 1 where both are zero, 0 where one is
  int64_t at = -1;      // element of max_abs, the first such; -1 if none differs
};

// Runs in parallel_for; the result does not depend on threads. Sizes must be whole elements, and as many on both sides.
Difference compare(DType a_type, std::span<const std::byte> a, DType b_type, std::span<const std::byte> b);

}  // namespace ravine
