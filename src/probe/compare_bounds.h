// Bounds on the difference between the outputs of a call in two runs (formula: compare_dumps.h).
#pragma once
#include <span>

#include "kernels/error_bounds.h"
#include "probe/comparison.h"

namespace ravine {

// Returns a lower bound of |b - a| / |a|, in L2 norms, for two tensors with these statistics. Infinite if their numbers
// of non-finite elements differ.
double least_error(const TensorFigures& a, const TensorFigures& b);

// Returns the bounds on the difference of an output between two runs, relative to the L2 norm of run A's output. call:
// all pairs of the call. written: the pair of the output. own: the roundings of the call, twice error_bound()'s value,
// because both runs round. inherited: the effect of the errors of the inputs; if only their statistics are known, 32
// times the error that these show is assumed. A tensor without statistics and values is treated as a tensor of ones.
ErrorBound bounds_of(std::span<const ComparedPair> call, const ComparedPair& written);

}  // namespace ravine
