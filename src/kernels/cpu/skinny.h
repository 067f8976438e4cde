// Products with at most eight rows, for decoding. Reading the weight once takes most of the time.
#pragma once
#include "kernels/kernels.h"

namespace ravine {

inline constexpr int64_t kSkinnyRows = 8;

// Returns the floats between rows of the packed operand a with k columns. A power of two would map rows to few lines of
// the first-level cache.
inline int64_t skinny_pitch(int64_t k) { return round_up(k, 16) + 16; }

// Runs a matrix product with few rows: out (+)= a b^T + bias for a with at most kSkinnyRows rows, b [N,K]; types as in
// Matmul. Each element is a sum in an order that depends on K only, so the result of a row does not depend on other
// rows. wide_a: memory for the rows, skinny_pitch(K) floats each.
void skinny_product(const Matmul& args, const float* bias, float* wide_a);

}  // namespace ravine
