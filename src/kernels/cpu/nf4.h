// Decodes blocks of 4 bits for panels with vector instructions, on the calling thread.
#pragma once
#include "kernels/nf4.h"

namespace ravine {

// Decodes elements of a matrix in blocks of 4 bits to f32, as nf4_decode with equal bits, but with vector instructions.
void decode_nf4(const Nf4View& v, int64_t row, int64_t rows, int64_t col, int64_t cols, float* out, int64_t ld);

}  // namespace ravine
