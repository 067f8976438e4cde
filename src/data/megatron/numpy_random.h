// NumPy's legacy random numbers, as far as Megatron's order needs them.
#pragma once
#include <cstdint>
#include <random>
#include <span>

namespace ravine {

// The generator of numpy.random.RandomState(seed), with equal results: MT19937 seeded by init_genrand. Source:
// numpy/random/mtrand.pyx, _legacy_seeding and shuffle.
class NumpyRandomState {
 public:
  explicit NumpyRandomState(uint32_t seed) : engine_(seed) {}
  // Shuffles like RandomState.shuffle of a one-dimensional array: Fisher-Yates from the end, each index drawn by masked
  // rejection.
  template <class T>
  void shuffle(std::span<T> values);

 private:
  uint32_t below_or_at(uint32_t most);
  std::mt19937 engine_;
};

template <class T>
void NumpyRandomState::shuffle(std::span<T> values) {
  // Indices are drawn in blocks, so that their elements can be prefetched.
  constexpr size_t kBlock = 128;
  uint32_t other[kBlock];
  for (size_t left = values.size(); left > 1;) {
    const size_t n = left - 1 < kBlock ? left - 1 : kBlock;
    for (size_t i = 0; i < n; ++i) {
      other[i] = below_or_at(static_cast<uint32_t>(left - 1 - i));
      __builtin_prefetch(&values[other[i]], 1);
    }
    for (size_t i = 0; i < n; ++i) std::swap(values[left - 1 - i], values[other[i]]);
    left -= n;
  }
}

inline uint32_t NumpyRandomState::below_or_at(uint32_t most) {
  const uint32_t mask = UINT32_MAX >> __builtin_clz(most);
  for (;;)
    if (uint32_t value = static_cast<uint32_t>(engine_()) & mask; value <= most) return value;
}

}  // namespace ravine
