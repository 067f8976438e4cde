// A sum of doubles without rounding: a fixed-point number that covers the whole range of double. The result does not
// depend on the order of the terms, nor on their distribution over threads and ranks. Infinities and NaN are added
// apart. Source: Neal 2015, "Fast exact summation using small and large superaccumulators" (the small accumulator).
#pragma once
#include <array>
#include <cstdint>

namespace ravine {

class ExactSum {
 public:
  void add(double x);
  void add(const ExactSum& other);
  double value() const;  // the sum, rounded once (to within one unit in the last place)
  static constexpr int kLimbs = 70;
  // Normalizes the state of the sum for a reduction over ranks. Afterwards limbs() of several sums may be added
  // elementwise, and so may special().
  void normalize();
  std::array<int64_t, kLimbs>& limbs() { return limbs_; }
  double& special() { return special_; }

 private:
  std::array<int64_t, kLimbs> limbs_{};  // limb i has the unit 2^(32 i - 1074)
  double special_ = 0;                   // sum of the infinities and NaNs
  int64_t pending_ = 0;                  // additions since the last normalize()
};

}  // namespace ravine
