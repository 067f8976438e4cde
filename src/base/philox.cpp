#include "base/philox.h"

#include <cmath>
#include <numbers>

namespace ravine {

uint64_t philox_key(uint64_t seed, std::string_view path) {
  uint64_t h = 0xcbf29ce484222325u;
  for (unsigned char ch : path) h = (h ^ ch) * 0x100000001b3u;
  auto w = philox(h, {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), 0, 0});
  return uint64_t{w[1]} << 32 | w[0];
}

std::array<double, 2> normal_pair(uint32_t a, uint32_t b) {
  double u = (a + 1.0) * 0x1p-32, angle = 2 * std::numbers::pi * b * 0x1p-32;
  double r = std::sqrt(-2.0 * std::log(u));
  return {r * std::cos(angle), r * std::sin(angle)};
}

}  // namespace ravine
