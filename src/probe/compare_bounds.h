// How far what a call writes may be apart in two runs (the formula: compare_dumps.h).
#pragma once
#include <span>

#include "kernels/error_bounds.h"
#include "probe/comparison.h"

namespace ravine {

// The least |b - a| / |a| that two tensors of these statistics can have; infinite where they differ in what is not finite.
double least_error(const TensorFigures& a, const TensorFigures& b);

// Of `written`, one of the pairs of a call, as parts of |a|: twice error_bound's own, since both runs round, and what it
// inherits from the errors of what was read, of which statistics show a 32nd part or more. Where no statistics are known, a tensor counts as so many ones.
ErrorBound bounds_of(std::span<const ComparedPair> call, const ComparedPair& written);

}  // namespace ravine
