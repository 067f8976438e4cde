// The difference between two tensors of one shape.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "base/dtype.h"

namespace ravine {

// Upper ends of the bins of ULP distances. The last bin has all larger distances, and NaN on one side.
inline constexpr std::array<int64_t, 7> kUlpBins{0, 1, 2, 4, 16, 256, 65536};

// The differences of two tensors. Values are compared in a type that holds all values, also of integers and of the
// largest f64. Elements with NaN on both sides, or with the same infinity, have distance 0. An element that is finite
// on one side only has an infinite distance.
struct PairErrors {
  int64_t count = 0, differing = 0;  // elements; elements with different values (0 and -0 are equal)
  int64_t not_finite_on_one = 0;     // elements that are not finite on one side, and not the same on the other
  // L2 norms of elements that are finite on both sides; so are the values below, except max_abs
  double norm_a = 0, norm_b = 0;
  double relative = 0;             // |b - a| / |a| in L2 norms; infinite if not_finite_on_one > 0, or only a is 0
  double cosine = 1;               // a.b / (|a| |b|); 1 if both are 0, 0 if one is
  double bias = 0;                 // mean of b - a
  double max_abs = 0;              // largest |b - a|
  int64_t at = -1;                 // the first element with this difference; -1 if none differs
  long double a_at = 0, b_at = 0;  // the values of this element
  // ULP distance: the steps between two numbers in the type with fewer bits (for integers: the difference). 0 and -0
  // have distance 0.
  int64_t max_ulp = 0;
  std::array<int64_t, kUlpBins.size() + 1> ulps{};
};

// Compares two tensors in parallel_for; the result does not depend on the threads. Both have the same number of
// elements, which need not be aligned.
PairErrors errors_between(DType a_type, std::span<const std::byte> a, DType b_type, std::span<const std::byte> b);

// Returns an element as text: integers in full, other types with `digits` digits.
std::string element_text(DType type, long double value, int digits);

}  // namespace ravine
