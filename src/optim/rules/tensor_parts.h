// Helpers of rules that see whole tensors.
#pragma once
#include <cmath>

#include "optim/update_rule.h"

namespace ravine {

// Returns the Euclidean norm of a tensor. The result is the same for any number of threads; 0 on meta.
inline double norm_of(Ctx& c, const TensorView& x) {
  ExactSum squares;
  c.call(SumSquares{x, &squares});
  return std::sqrt(squares.value());
}
inline double root_mean_square(Ctx& c, const TensorView& x) {
  return norm_of(c, x) / std::sqrt(static_cast<double>(x.count()));
}

inline Tensor like(Ctx& c, const TensorView& x) { return c.empty(x.shape, x.dtype, MemoryKind::workspace); }

// Returns param / direction, limited to [least, most]; 1 if either is 0. Both are norms: of a parameter, and of the
// direction of its update (You et al. 2020).
inline double trust_ratio(double param, double direction, double least, double most) {
  return param == 0 || direction == 0 ? 1 : std::min(std::max(param / direction, least), most);
}

// True for a matrix: Adafactor and Came keep states of its rows and columns.
inline bool has_rows_and_columns(const Param& p) { return p.shape.rank() >= 2; }
// True for a vector: Adafactor and Came keep a state with one value for each element.
inline bool has_elements_only(const Param& p) { return p.shape.rank() < 2; }

}  // namespace ravine
