// How far two tensors of one shape are apart.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "base/dtype.h"

namespace ravine {

// Upper ends of the bins of distances in units of the last place; the last bin has all that is more, and NaN on one side.
inline constexpr std::array<int64_t, 7> kUlpBins{0, 1, 2, 4, 16, 256, 65536};

// Values are compared in a type that holds them all, so integers and the ends of f64 are no exception. An element that is NaN on both sides, or the same infinity, has distance 0; one that is finite on
// one side only is infinitely far.
struct PairErrors {
  int64_t count = 0, differing = 0;  // elements; of other values (0 and -0 are equal)
  int64_t not_finite_on_one = 0;     // elements that are NaN or infinite on one side, and not the same on the other
  double norm_a = 0, norm_b = 0;     // L2, of elements that are finite on both sides, like all that follows but max_abs
  double relative = 0;               // |b - a| / |a| in L2 norms; infinite where not_finite_on_one > 0, or a alone is 0
  double cosine = 1;                 // a.b / (|a| |b|); 1 where both are 0, 0 where one is
  double bias = 0;                   // mean of b - a
  double max_abs = 0;                // largest |b - a|
  int64_t at = -1;                   // its element, the first such; -1 where none differs
  long double a_at = 0, b_at = 0;    // its values
  // Steps between the two numbers in the type of fewer bits (of integers: the difference); 0 and -0 are 0 apart.
  int64_t max_ulp = 0;
  std::array<int64_t, kUlpBins.size() + 1> ulps{};
};

// Runs in parallel_for; the result does not depend on threads. As many whole elements on both sides, which need not be aligned.
PairErrors errors_between(DType a_type, std::span<const std::byte> a, DType b_type, std::span<const std::byte> b);

// An element as text: integers in full, others with so many digits.
std::string element_text(DType type, long double value, int digits);

}  // namespace ravine
