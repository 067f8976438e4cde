#include "engine/initial_values.h"

#include <array>

#include "base/parallel.h"
#include "base/philox.h"

namespace ravine {

// Host work, done once.
void draw_values(const Param& p, uint64_t seed, int64_t begin, int64_t n, const TensorView& out, int64_t at) {
  constexpr int64_t kRun = 4096;
  const uint64_t key = philox_key(seed, p.name);
  visit_float(out.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* to = out.as<T>() + at - begin;  // indexed by element of p
    int64_t first = begin / kRun;
    parallel_for(ceil_div(begin + n, kRun) - first, [&](int64_t run) {
      int64_t from = std::max(begin, (first + run) * kRun), end = std::min(begin + n, (first + run + 1) * kRun);
      for (int64_t i = from / 4 * 4; i < end; i += 4) {
        std::array<double, 4> z{};
        if (p.init.kind == Init::normal || p.init.kind == Init::uniform) {
          auto w = philox(key, {static_cast<uint32_t>(i / 4), static_cast<uint32_t>((i / 4) >> 32), 0, 0});
          if (p.init.kind == Init::normal) {
            auto a = normal_pair(w[0], w[1]), b = normal_pair(w[2], w[3]);
            z = {a[0], a[1], b[0], b[1]};
          } else {
            for (size_t k = 0; k < 4; ++k) z[k] = 2 * uniform24(w[k]) - 1;
          }
        }
        for (int64_t j = std::max(i, from); j < std::min(i + 4, end); ++j) {
          double x = p.init.kind == Init::normal || p.init.kind == Init::uniform ? p.init.std * z[static_cast<size_t>(j - i)]
                     : p.init.kind == Init::ones                                 ? 1.0
                                                                                 : 0.0;
          to[j] = static_cast<T>(static_cast<float>(x));
        }
      }
    });
  });
}

}  // namespace ravine
