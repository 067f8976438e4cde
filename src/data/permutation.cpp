#include "data/permutation.h"

#include "base/error.h"
#include "base/philox.h"

namespace ravine {

Permutation::Permutation(int64_t n, uint64_t key) : n_(n), key_(key) {
  require(n >= 0 && n <= int64_t{1} << 62, "permutation: n is 0 to 2^62, got {}", n);
  while (half_ < 31 && int64_t{1} << 2 * half_ < n) ++half_;
}

int64_t Permutation::operator()(int64_t i) const {
  require(i >= 0 && i < n_, "permutation: index is 0 to {}, got {}", n_ - 1, i);
  uint32_t mask = static_cast<uint32_t>((uint64_t{1} << half_) - 1);
  auto v = static_cast<uint64_t>(i);
  do {
    uint32_t left = static_cast<uint32_t>(v >> half_), right = static_cast<uint32_t>(v) & mask;
    for (uint32_t round = 0; round < 6; ++round) {
      uint32_t next = left ^ (philox(key_, {right, round, 0, 0})[0] & mask);
      left = right;
      right = next;
    }
    v = uint64_t{left} << half_ | right;
  } while (v >= static_cast<uint64_t>(n_));
  return static_cast<int64_t>(v);
}

}  // namespace ravine
