#include "files/md5.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace ravine {

std::string md5_hex(std::string_view text) {
  constexpr int kShift[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
  std::array<uint32_t, 64> sines;
  for (size_t i = 0; i < 64; ++i)
    sines[i] = static_cast<uint32_t>(std::floor(std::fabs(std::sin(static_cast<double>(i + 1))) * 4294967296.0));
  std::string padded(text);
  padded += '\x80';
  while (padded.size() % 64 != 56) padded += '\0';
  const uint64_t bits = uint64_t{text.size()} * 8;
  for (int i = 0; i < 8; ++i) padded += static_cast<char>(bits >> (8 * i));

  std::array<uint32_t, 4> sum{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
  for (size_t at = 0; at < padded.size(); at += 64) {
    uint32_t word[16];
    for (size_t i = 0; i < 16; ++i) {
      word[i] = 0;
      for (size_t k = 0; k < 4; ++k) word[i] |= uint32_t{static_cast<unsigned char>(padded[at + 4 * i + k])} << (8 * k);
    }
    auto [a, b, c, d] = sum;
    for (uint32_t i = 0; i < 64; ++i) {
      uint32_t f, from;
      switch (i / 16) {
        case 0:
          f = (b & c) | (~b & d), from = i;
          break;
        case 1:
          f = (d & b) | (~d & c), from = (5 * i + 1) % 16;
          break;
        case 2:
          f = b ^ c ^ d, from = (3 * i + 5) % 16;
          break;
        default:
          f = c ^ (b | ~d), from = (7 * i) % 16;
      }
      const uint32_t turned = b + std::rotl(a + f + sines[i] + word[from], kShift[i / 16][i % 4]);
      a = d, d = c, c = b, b = turned;
    }
    sum[0] += a, sum[1] += b, sum[2] += c, sum[3] += d;
  }
  std::string hex;
  for (uint32_t s : sum)
    for (int k = 0; k < 4; ++k) hex += fmt::format("{:02x}", (s >> (8 * k)) & 0xff);
  return hex;
}

}  // namespace ravine
