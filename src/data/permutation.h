// A shuffle that is computed on demand, not stored.
#pragma once
#include <cstdint>

namespace ravine {

// A pseudorandom permutation of [0, n), selected by `key`. A balanced Feistel network of six rounds of Philox permutes
// the next power of four. The network is repeated until the value is below n (cycle walking: Black and Rogaway,
// "Ciphers with arbitrary finite domains", 2002). Constant memory; n is at most 2^62.
class Permutation {
 public:
  Permutation(int64_t n, uint64_t key);
  int64_t operator()(int64_t i) const;  // returns the number at position i; both are in [0, n)

 private:
  int64_t n_;
  uint64_t key_;
  int half_ = 0;  // bits of one half
};

}  // namespace ravine
