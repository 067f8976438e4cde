// Products with at most eight rows: decoding. Bound by reading the weight once.
#pragma once
#include "kernels/kernels.h"

namespace ravine {

inline constexpr int64_t kSkinnyRows = 8;

// out (+)= a b^T + bias for a of at most kSkinnyRows rows, b [N,K]; types as Matmul allows.
// Each element is a sum in the order of K that depends on K only, so a row's result does not depend on the rows beside it.
// wide_a: room for a in f32, packed.
void skinny_product(const Matmul& args, const float* bias, float* wide_a);

}  // namespace ravine
