// Conversion between element types.
#pragma once
#include "base/dtype.h"

namespace ravine {

// Converts `count` elements from `source` to `target`. Neither needs alignment; they must not overlap. Every pair of
// types is supported:
//   to a float: rounded once, to nearest even (also f64 or i64 to bf16 and f16); out of range becomes infinity; NaN
//   stays;
//   float to integer: rounded to nearest even, then clamped to the range; NaN becomes 0;
//   integer to integer: clamped to the range;
//   to bool: 1 if not 0, NaN included. A bool byte other than 0 is read as 1.
//
// Runs on the calling thread; for speed, split the array into chunks for parallel_for.
void convert(DType from, const void* source, DType to, void* target, int64_t count);

}  // namespace ravine
