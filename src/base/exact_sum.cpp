#include "base/exact_sum.h"

#include <bit>
#include <cmath>

namespace ravine {

void ExactSum::add(double x) {
  uint64_t u = std::bit_cast<uint64_t>(x);
  int e = static_cast<int>((u >> 52) & 0x7ff);
  uint64_t m = u & 0xfffffffffffffu;
  if (e == 0x7ff) {
    special_ += x;
    return;
  }
  if (e == 0) {
    if (m == 0) return;
    e = 1;
  } else {
    m |= uint64_t{1} << 52;
  }
  int bit = e - 1, limb = bit / 32, shift = bit % 32;
  unsigned __int128 wide = static_cast<unsigned __int128>(m) << shift;  // up to 84 bits over three limbs
  int64_t sign = (u >> 63) ? -1 : 1;
  for (int i = 0; i < 3; ++i) limbs_[limb + i] += sign * static_cast<int64_t>(static_cast<uint32_t>(wide >> (32 * i)));
  if (++pending_ >= (int64_t{1} << 30)) normalize();
}

void ExactSum::add(const ExactSum& other) {
  ExactSum o = other;
  o.normalize();
  normalize();
  for (int i = 0; i < kLimbs; ++i) limbs_[i] += o.limbs_[i];
  special_ += o.special_;
  pending_ = 1;
}

void ExactSum::normalize() {
  int64_t carry = 0;
  for (int i = 0; i < kLimbs - 1; ++i) {
    int64_t v = limbs_[i] + carry;
    carry = v >> 32;
    limbs_[i] = v - (carry << 32);
  }
  limbs_[kLimbs - 1] += carry;
  pending_ = 0;
}

double ExactSum::value() const {
  if (special_ != 0 || std::isnan(special_)) return special_;
  ExactSum c = *this;
  c.normalize();
  bool negative = c.limbs_[kLimbs - 1] < 0;
  if (negative) {
    for (auto& l : c.limbs_) l = -l;
    c.normalize();
  }
  int top = kLimbs - 1;
  while (top > 0 && c.limbs_[top] == 0) --top;
  long double r = 0;  // three limbs hold at least 65 significant bits: one rounding in effect
  for (int i = top; i >= 0 && i > top - 3; --i) r += std::ldexp(static_cast<long double>(c.limbs_[i]), 32 * i - 1074);
  return static_cast<double>(negative ? -r : r);
}

}  // namespace ravine
