// Measures the cost of a parallel loop: the time of a round of small loops with serial work between them, as in
// decoding. Usage: bench_kernels_regions [seconds]. Two runs at once show how waiting threads slow down other
// processes.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "base/parallel.h"

using namespace ravine;

namespace {
double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
void work(double seconds) {
  for (const double end = now() + seconds; now() < end;) {
  }
}
}  // namespace

int main(int argc, char** argv) {
  const double total = argc > 1 ? std::atof(argv[1]) : 1;
  const auto noop = [](int64_t) {};
  for (auto [chunks, chunk_us, serial_us] :
       {std::tuple{2, 0.0, 0.0}, {2, 0.0, 5.0}, {32, 5.0, 5.0}, {2, 50.0, 50.0}, {2, 100.0, 1000.0}}) {
    const double began = now();
    int64_t rounds = 0;
    for (; now() < began + total / 5; ++rounds) {
      if (chunk_us == 0)
        parallel_for(chunks, noop);
      else
        parallel_for(chunks, [&, us = chunk_us](int64_t) { work(us * 1e-6); });
      if (serial_us > 0) work(serial_us * 1e-6);
    }
    const double least = (chunks * chunk_us / thread_count() + serial_us) * 1e-6,
                 each = (now() - began) / static_cast<double>(rounds);
    std::printf("%3d chunks of %5.0f us, %6.0f us between: %8.2f us a round, %8.2f beyond the work\n", chunks, chunk_us,
                serial_us, each * 1e6, (each - least) * 1e6);
  }
}
