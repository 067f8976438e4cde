// Bounds on the difference between the outputs of a call in two runs (formula: compare_dumps.h).
#pragma once
#include <span>

#include "kernels/error_bounds.h"
#include "probe/comparison.h"

namespace ravine {

// Returns the least |b - a| / |a| that two tensors with these statistics can have; infinite if their non-finite
// elements differ.
double least_error(const TensorFigures& a, const TensorFigures& b);

// Returns the bounds for `written`, one of the pairs of a call, relative to |a|. own: twice error_bound's, because both
// runs round. inherited: from the errors of the inputs; statistics show at least 1/32 of such an error. A tensor
// without statistics counts as a tensor of ones.
ErrorBound bounds_of(std::span<const ComparedPair> call, const ComparedPair& written);

}  // namespace ravine
