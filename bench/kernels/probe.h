// Measures the current speed of this machine. Its clock may change within a second, so a probe runs next to every timed
// run, and ratios are computed for each pair.
#pragma once
#include <algorithm>
#include <chrono>
#include <vector>

#include "base/parallel.h"
#include "kernels/cpu/tile.h"

namespace ravine {

inline double seconds_of(const auto& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Returns the FLOP/s of all threads on 64 x 64 x 64 products in the L1 cache (0.97 of an FMA loop), over about 4 ms.
inline double probe_flops() {
  constexpr int64_t kSize = 64, kTimes = 1200;
  const TileKernel tile({kSize, kSize, kSize, kSize, kSize, kSize});
  const int threads = thread_count();
  std::vector<float> memory(threads * 3 * kSize * kSize, 0.5f);
  const double s = seconds_of([&] {
    parallel_for(threads, [&](int64_t i) {
      float* x = memory.data() + i * 3 * kSize * kSize;
      for (int64_t n = 0; n < kTimes; ++n) tile(x, x + kSize * kSize, x + 2 * kSize * kSize);
    });
  });
  return 2.0 * kSize * kSize * kSize * kTimes * threads / s;
}

inline double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

// The medians over the runs: FLOP/s, and its fraction of the probes before and after the run.
struct Speed {
  double flops, fraction;
};
inline Speed speed_of(double flops, int runs, const auto& f) {
  f();
  std::vector<double> speed, fraction;
  double before = probe_flops();
  for (int i = 0; i < runs; ++i) {
    const double now = flops / seconds_of(f), after = probe_flops();
    speed.push_back(now), fraction.push_back(2 * now / (before + after));
    before = after;
  }
  return {median(speed), median(fraction)};
}

}  // namespace ravine
