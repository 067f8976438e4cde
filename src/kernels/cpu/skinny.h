// Products with at most eight rows: decoding. Bound by reading the weight once.
#pragma once
#include "kernels/kernels.h"

namespace ravine {

inline constexpr int64_t kSkinnyRows = 8;

// Floats between rows of the packed a: rows a power of two apart would share few lines of the first-level cache.
inline int64_t skinny_pitch(int64_t k) { return round_up(k, 16) + 16; }

// out (+)= a b^T + bias for a of at most kSkinnyRows rows, b [N,K]; types as Matmul allows.
// Each element is a sum in the order of K that depends on K only, so a row's result does not depend on the rows beside it.
// wide_a: room for rows of skinny_pitch(K) floats.
void skinny_product(const Matmul& args, const float* bias, float* wide_a);

}  // namespace ravine
