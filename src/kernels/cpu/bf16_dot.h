// The bf16 dot product of AVX-512 (vdpbf16ps), which Highway 1.0.3 lacks: whether this machine has it, its rate, and how
// operands become pairs for strip_bf16 (strip.h). The rest of this file needs has_bf16_dot().
//
// Against widening to f32: the same products, exact in f32, enter the same chain, but the second of each pair before the first,
// and operands, products and sums below 2^-126 count as zero. Each product costs one rounding, as a fused multiply-add does.
#pragma once
#include <cstdint>

#include "kernels/cpu/pack.h"

namespace ravine {

bool has_bf16_dot();

// Runs `rounds` times 16 dot products of 32 bf16 pairs each on the calling thread (1024 FLOP per round).
float bf16_dot_loop(int64_t rounds);

// In what follows `from` is bf16, and a pair is two neighbours along k, the last one with zero where k is odd. A pair counts as
// one float of the target.

// pair(k / 2, j) of from [k, j] at to[k / 2 * ld + j].
void pairs_of_rows(const Corner& from, int64_t rows, int64_t cols, float* to, int64_t ld);
// pair(k / 2, j) of from [k, j] at to[j / 6 * ld + k / 2 * 6 + j % 6], ld as for pack_sixes.
void pairs_of_rows_in_sixes(const Corner& from, int64_t rows, int64_t cols, float* to, int64_t ld);
// pair(j, k / 2) of from [j, k] at to[j * ld + k / 2].
void pairs_along_rows(const Corner& from, int64_t rows, int64_t cols, float* to, int64_t ld);
// pair(j, k / 2) of from [j, k] at to[k / 2 * ld + j].
void pairs_transposed(const Corner& from, int64_t rows, int64_t cols, float* to, int64_t ld);
// As pairs_of_rows_in_sixes, from values of bf16 that are held as f32, row k at from + k * stride: ld >= 6 * ceil(rows / 2).
// Up to 16 floats behind what a row or the last six has are read or written.
void pairs_of_wide_rows_in_sixes(const float* from, int64_t stride, int64_t rows, int64_t cols, float* to, int64_t ld);

}  // namespace ravine
