// Element types into one another.
#pragma once
#include "base/dtype.h"

namespace ravine {

// `count` elements from `source` to `target`; neither needs to be aligned, and they must not overlap. Every pair of types
// works:
//  to a float: rounded once, to nearest even (also f64 or i64 to bf16 and f16); beyond the range becomes infinity; NaN stays;
//  float to integer: rounded to nearest even, then the nearest value in range; NaN becomes 0;
//  integer to integer: the nearest value in range;
//  to bool: 1 where not 0, NaN included. A bool byte other than 0 counts as 1.
// Runs on the calling thread: for speed, cut the run into chunks for parallel_for.
void convert(DType from, const void* source, DType to, void* target, int64_t count);

}  // namespace ravine
