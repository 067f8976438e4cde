// Blocks of 4 bits on their way into panels, at vector speed; on the calling thread.
#pragma once
#include "kernels/nf4.h"

namespace ravine {

// nf4_decode, and its bits.
void decode_nf4(const Nf4View& v, int64_t row, int64_t rows, int64_t col, int64_t cols, float* out, int64_t ld);

}  // namespace ravine
