// What rules that see whole tensors share.
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

// The norm of the parameter over that of its direction, within bounds; 1 where either is 0 (You et al. 2020).
inline double trust_ratio(double param, double direction, double least, double most) {
  return param == 0 || direction == 0 ? 1 : std::min(std::max(param / direction, least), most);
}

// States of Adafactor and Came: of matrices in rows and columns, of vectors in elements.
inline bool has_rows_and_columns(const Param& p) { return p.shape.rank() >= 2; }
inline bool has_elements_only(const Param& p) { return p.shape.rank() < 2; }

}  // namespace ravine
