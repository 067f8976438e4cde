// Helpers of rules that see whole tensors.
#pragma once
#include <cmath>

#include "optim/update_rule.h"

namespace ravine {

// Euclidean norm, the same for any number of threads; 0 on meta.
inline double norm_of(Ctx& c, const TensorView& x) {
  ExactSum squares;
  c.call(SumSquares{x, &squares});
  return std::sqrt(squares.value());
}
inline double root_mean_square(Ctx& c, const TensorView& x) {
  return norm_of(c, x) / std::sqrt(static_cast<double>(x.count()));
}

inline Tensor like(Ctx& c, const TensorView& x) { return c.empty(x.shape, x.dtype, MemoryKind::workspace); }

// Returns param / direction (two norms) within bounds; 1 if either is 0 (You et al. 2020).
inline double trust_ratio(double param, double direction, double least, double most) {
  return param == 0 || direction == 0 ? 1 : std::min(std::max(param / direction, least), most);
}

// The parameters of Adafactor's and Came's states: matrices have row and column states, vectors one per element.
inline bool has_rows_and_columns(const Param& p) { return p.shape.rank() >= 2; }
inline bool has_elements_only(const Param& p) { return p.shape.rank() < 2; }

}  // namespace ravine
