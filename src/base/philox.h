// Philox4x32-10, a counter-based random number generator. The same (key, counter) gives the same four words on every
// machine, in any order, on any thread. Source: Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2,
// 3", SC 2011.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace ravine {

inline std::array<uint32_t, 4> philox(uint64_t key, std::array<uint32_t, 4> c) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = uint64_t{0xD2511F53u} * c[0], p1 = uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1), static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1,
         static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

// Returns a number in [0, 1), uniform: the top 24 bits of `word` times 2^-24.
inline float uniform24(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

// Returns a 64-bit key from a seed and a name (the path of a parameter or an op): FNV-1a of the name, mixed with the
// seed.
uint64_t philox_key(uint64_t seed, std::string_view path);

// Returns two independent standard normal numbers from two random words (Box-Muller, in double).
std::array<double, 2> normal_pair(uint32_t a, uint32_t b);

}  // namespace ravine
