// Compiled with the flags of the instruction; called only if has_bf16_dot().
#include "kernels/cpu/bf16_dot.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "kernels/cpu/strip.h"

namespace ravine {
namespace bf16_dot {
#include "kernels/cpu/strip-inl.h"

struct DotBf16 {
  using V = __m512;
  static constexpr int64_t kLanes = 16;
  static V zero() { return _mm512_setzero_ps(); }
  static V load(const float* p) { return _mm512_loadu_ps(p); }
  static V all(const void* p) {  // of any alignment
    int pair;
    std::memcpy(&pair, p, 4);
    return _mm512_castsi512_ps(_mm512_set1_epi32(pair));
  }
  static V add_product(V sum, V a, V b) { return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b); }
  static void store(V v, float* p) { _mm512_storeu_ps(p, v); }
};

// Lane j has element j of `even` in the low half and of `odd` in the high half. Lanes outside the mask are zero.
__m512i pair_up(const uint16_t* even, const uint16_t* odd, __mmask16 lanes) {
  const __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, even));
  if (!odd) return low;
  return _mm512_or_si512(low, _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, odd)), 16));
}

__mmask16 first(int64_t n) { return static_cast<__mmask16>(n >= 16 ? 0xffff : (1 << n) - 1); }

struct Rows {
  const uint16_t* at;
  int64_t stride, count;
  explicit Rows(const Corner& c, int64_t rows) : at(static_cast<const uint16_t*>(c.data)), stride(c.stride), count(rows) {}
  const uint16_t* operator[](int64_t i) const { return i < count ? at + i * stride : nullptr; }
};

}  // namespace bf16_dot

using namespace bf16_dot;

void strip_bf16(const Strip& s) { strip_any<DotBf16, 4>(s); }

bool has_bf16_dot() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512bf16");
}

void pairs_of_rows(const Corner& from, int64_t rows, int64_t cols, float* to, int64_t ld) {
  const Rows x(from, rows);
  for (int64_t k = 0; k < rows; k += 2)
    for (int64_t j = 0; j < cols; j += 16) {
      const __mmask16 lanes = first(cols - j);
      const uint16_t* odd = x[k + 1];
      _mm512_mask_storeu_epi32(to + k / 2 * ld + j, lanes, pair_up(x[k] + j, odd ? odd + j : nullptr, lanes));
    }
}

void pairs_of_rows_in_sixes(const Corner& from, int64_t rows, int64_t cols, float* to, int64_t ld) {
  const Rows x(from, rows);
  // Rows that stay in the first-level cache, at any stride, until all their sixes are copied.
  constexpr int64_t kChunk = 16;
  for (int64_t k0 = 0; k0 < rows; k0 += kChunk)
    for (int64_t j = 0; j < cols; j += 6) {
      const __mmask16 lanes = first(std::min<int64_t>(6, cols - j));
      for (int64_t k = k0; k < std::min(rows, k0 + kChunk); k += 2) {
        const uint16_t* odd = x[k + 1];
        _mm512_mask_storeu_epi32(to + j / 6 * ld + k / 2 * 6, lanes, pair_up(x[k] + j, odd ? odd + j : nullptr, lanes));
      }
    }
}

void pairs_along_rows(const Corner& from, int64_t rows, int64_t cols, float* to, int64_t ld) {
  const Rows x(from, rows);
  for (int64_t i = 0; i < rows; ++i) {
    char* row = reinterpret_cast<char*>(to + i * ld);
    std::memcpy(row, x[i], cols * 2);
    if (cols % 2) std::memset(row + cols * 2, 0, 2);
  }
}

void pairs_transposed(const Corner& from, int64_t rows, int64_t cols, float* to, int64_t ld) {
  constexpr int64_t kRows = 64, kPairs = 64;
  alignas(64) float block[kRows * kPairs];
  for (int64_t i = 0; i < rows; i += kRows)
    for (int64_t k = 0; k < cols; k += 2 * kPairs) {
      const int64_t r = std::min(kRows, rows - i), c = std::min(2 * kPairs, cols - k);
      pairs_along_rows(from.at(i, k), r, c, block, kPairs);
      Corner words;
      words.data = block, words.stride = kPairs;
      pack_transposed(words, r, (c + 1) / 2, to + k / 2 * ld + i, ld);
    }
}

void pairs_of_wide_rows_in_sixes(const float* from, int64_t stride, int64_t rows, int64_t cols, float* to, int64_t ld) {
  const __m512i high = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  for (int64_t j = 0; j < cols; j += 6) {
    float* six = to + j / 6 * ld;  // a store has 16 words: the next store or the next six overwrites the surplus
    int64_t k = 0;
    for (; k + 2 <= rows; k += 2, six += 6) {
      const __m512i even = _mm512_srli_epi32(_mm512_loadu_si512(from + k * stride + j), 16);
      const __m512i odd = _mm512_and_si512(_mm512_loadu_si512(from + (k + 1) * stride + j), high);
      _mm512_storeu_si512(six, _mm512_or_si512(even, odd));
    }
    if (k < rows) _mm512_storeu_si512(six, _mm512_srli_epi32(_mm512_loadu_si512(from + k * stride + j), 16));
  }
}

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
