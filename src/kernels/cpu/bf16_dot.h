// The bf16 dot product of AVX-512 (vdpbf16ps), which Highway 1.0.3 lacks: detection, measured rate, and packing of
// operands into pairs for strip_bf16 (strip.h). All functions but has_bf16_dot() require it to be true.
//
// Difference to widening to f32: both sum the same products, which are exact in f32, in one chain. Here the second
// product of each pair is added before the first, and operands, products and sums below 2^-126 become zero. Each
// product has one rounding, as in a fused multiply-add.
#pragma once
#include <cstdint>

#include "kernels/cpu/pack.h"

namespace ravine {

bool has_bf16_dot();

// Measures the instruction: runs `rounds` times 16 dot products of 32 bf16 pairs each on the calling thread (1024 FLOP
// per round).
float bf16_dot_loop(int64_t rounds);

// `from` is bf16 below. A pair is two neighbours along k; if k is odd, the second of the last pair is zero. A pair has
// the size of one float.

// pairs_of_rows stores pair(k / 2, j) of from [k, j] at to[k / 2 * ld + j].
void pairs_of_rows(const Corner& from, int64_t rows, int64_t cols, float* to, int64_t ld);
// Packs pairs of neighbouring rows in groups of six columns: stores pair(k / 2, j) of from [k, j] at to[j / 6 * ld + k
// / 2 * 6 + j % 6]; ld as for pack_sixes.
void pairs_of_rows_in_sixes(const Corner& from, int64_t rows, int64_t cols, float* to, int64_t ld);
// Packs pairs of neighbours in a row: stores pair(j, k / 2) of from [j, k] at to[j * ld + k / 2].
void pairs_along_rows(const Corner& from, int64_t rows, int64_t cols, float* to, int64_t ld);
// Packs pairs of neighbours in a row, transposed: stores pair(j, k / 2) of from [j, k] at to[k / 2 * ld + j].
void pairs_transposed(const Corner& from, int64_t rows, int64_t cols, float* to, int64_t ld);
// As pairs_of_rows_in_sixes, from bf16 values stored as f32; row k is at from + k * stride; ld >= 6 * ceil(rows / 2).
// Up to 16 floats after a row or after the last six are read or written.
void pairs_of_wide_rows_in_sixes(const float* from, int64_t stride, int64_t rows, int64_t cols, float* to, int64_t ld);

}  // namespace ravine
