// Compiled with the flags of the instruction; entered only behind has_bf16_dot().
#include "kernels/cpu/bf16_dot.h"

#include <immintrin.h>

namespace ravine {

bool has_bf16_dot() { return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bf16"); }

float bf16_dot_loop(int64_t rounds) {
  __m512 sum[16];
#pragma GCC unroll 16
  for (auto& s : sum) s = _mm512_setzero_ps();
  __m512bh a = (__m512bh)_mm512_set1_epi32(0x3f003f00), b = (__m512bh)_mm512_set1_epi32(0x3e803e80);
  for (int64_t r = 0; r < rounds; ++r) {
    asm volatile("" : "+v"(a), "+v"(b));
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      asm volatile("" : "+v"(sum[i]));  // the compiler must not see that the chains are equal
      sum[i] = _mm512_dpbf16_ps(sum[i], a, b);
    }
  }
#pragma GCC unroll 16
  for (int i = 1; i < 16; ++i) sum[0] = _mm512_add_ps(sum[0], sum[i]);
  alignas(64) float lanes[16];
  _mm512_store_ps(lanes, sum[0]);
  return lanes[0];
}

}  // namespace ravine
