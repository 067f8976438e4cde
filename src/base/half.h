// The 16-bit floating types, for storage only: arithmetic converts to float. Conversions round to nearest even and keep
// NaN.
#pragma once
#include <bit>
#include <cstdint>

namespace ravine {

struct bf16 {
  uint16_t bits = 0;
  bf16() = default;
  explicit bf16(float f) {
    uint32_t u = std::bit_cast<uint32_t>(f);
    if ((u & 0x7fffffffu) > 0x7f800000u)
      bits = static_cast<uint16_t>((u >> 16) | 0x40u);
    else
      bits = static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

struct f16 {
  uint16_t bits = 0;
  f16() = default;
  explicit f16(float f) {
    uint32_t u = std::bit_cast<uint32_t>(f), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
    if (a > 0x7f800000u) {
      bits = static_cast<uint16_t>(sign | 0x7e00u | ((a >> 13) & 0x1ffu));
    } else if (a >= 0x477ff000u) {  // rounds to infinity
      bits = static_cast<uint16_t>(sign | 0x7c00u);
    } else if (a < 0x38800000u) {  // subnormal: a float addition does the rounding
      float r = std::bit_cast<float>(a) + 0.5f;
      bits = static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(r) - 0x3f000000u));
    } else {
      uint32_t r = a - 0x38000000u;
      bits = static_cast<uint16_t>(sign | ((r + 0xfffu + ((r >> 13) & 1u)) >> 13));
    }
  }
  explicit operator float() const {
    uint32_t sign = (bits & 0x8000u) << 16, e = (bits >> 10) & 31u, m = bits & 0x3ffu;
    if (e == 31) return std::bit_cast<float>(sign | 0x7f800000u | (m << 13));
    if (e != 0) return std::bit_cast<float>(sign | ((e + 112u) << 23) | (m << 13));
    float f = static_cast<float>(m) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(f));
  }
};

static_assert(sizeof(bf16) == 2 && sizeof(f16) == 2);

}  // namespace ravine
