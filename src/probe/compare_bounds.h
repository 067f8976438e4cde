// How far what a call writes may be apart in two runs (the formula: compare_dumps.h).
#pragma once
#include <span>

#include "probe/comparison.h"

namespace ravine {

// Of what no recorded call has made: roundings u of its type that are allowed, and how much of the largest error so far.
inline constexpr double kUnknownCall = 256, kInherited = 8;

double rounding_of(DType type);  // u, half of epsilon; of integers 0

// The least |b - a| / |a| that two tensors of these statistics can have; infinite where they differ in what is not finite.
double least_error(const TensorFigures& a, const TensorFigures& b);

struct CallBounds {
  double own = 0, inherited = 0;
};
// Of `written`, one of the pairs of a call.
CallBounds bounds_of(std::span<const ComparedPair> call, const ComparedPair& written);

}  // namespace ravine
