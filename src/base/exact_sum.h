// A sum of doubles without rounding: a fixed-point number as wide as the range of double, so the result does not depend on
// order or on how terms were spread over threads and ranks (Neal 2015, "Fast exact summation using small and large
// superaccumulators", the small one). Infinities and NaN are kept as such.
#pragma once
#include <array>
#include <cstdint>

namespace ravine {

class ExactSum {
 public:
  void add(double x);
  void add(const ExactSum& other);
  double value() const;  // the exact sum, rounded once (to within one unit in the last place)
  static constexpr int kLimbs = 70;
  // For messages between ranks: 70 integers that may be added elementwise after normalize(), and the special value.
  void normalize();
  std::array<int64_t, kLimbs>& limbs() { return limbs_; }
  double& special() { return special_; }

 private:
  std::array<int64_t, kLimbs> limbs_{};  // limb i counts units of 2^(32 i - 1074)
  double special_ = 0;                   // sum of the infinities and NaNs
  int64_t pending_ = 0;                  // additions since the last normalize
};

}  // namespace ravine
