// The difference between two tensors of one shape.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "base/dtype.h"

namespace ravine {

// Upper ends of the bins in which PairErrors::ulps counts elements by their ULP distance. One more bin has all larger
// distances, and elements with NaN in one tensor only.
inline constexpr std::array<int64_t, 7> kUlpBins{0, 1, 2, 4, 16, 256, 65536};

// The differences between two tensors a and b: the result of errors_between(). Values are compared in a type that holds
// all values, also of integers and of the largest f64. Elements with NaN in both tensors, or with the same infinity,
// have distance 0. An element that is finite in one tensor only has an infinite distance.
struct PairErrors {
  int64_t count = 0, differing = 0;  // number of elements; number with different values (0 and -0 are equal)
  int64_t not_finite_on_one = 0;     // number of elements that are not finite in a or in b, and not the same in both
  // L2 norms. Norms, cosine and bias are computed from the elements that are finite in both tensors.
  double norm_a = 0, norm_b = 0;
  double relative = 0;             // |b - a| / |a| in L2 norms; infinite if not_finite_on_one > 0, or only a is 0
  double cosine = 1;               // a.b / (|a| |b|); 1 if both norms are 0, 0 if only one is
  double bias = 0;                 // mean of b - a
  double max_abs = 0;              // largest |b - a|
  int64_t at = -1;                 // index of the first element with the difference max_abs; -1 if none differs
  long double a_at = 0, b_at = 0;  // the values of element `at`
  // ULP distance: the steps between two numbers in the type with fewer bits (for integers: the difference). 0 and -0
  // have distance 0.
  int64_t max_ulp = 0;
  std::array<int64_t, kUlpBins.size() + 1> ulps{};
};

// Compares two tensors, given by type and bytes. Both must have the same number of elements; the bytes need not be
// aligned. Runs in parallel_for; the result does not depend on the threads.
PairErrors errors_between(DType a_type, std::span<const std::byte> a, DType b_type, std::span<const std::byte> b);

// Returns the value of an element as text: integers in full, other types with `digits` significant digits.
std::string element_text(DType type, long double value, int digits);

}  // namespace ravine
