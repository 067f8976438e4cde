// Measures products of few rows (decoding) relative to the read bandwidth of the same run. The weights have 512 MB in
// all, and are read one matrix after another. Usage: bench_kernels_skinny [rows...]; OMP_NUM_THREADS sets the threads.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/parallel.h"
#include "device/device.h"
#include "kernels/kernels.h"
#include "kernels/peaks.h"

using namespace ravine;

namespace {
double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
}  // namespace

int main(int argc, char** argv) {
  std::vector<int64_t> rows;
  for (int i = 1; i < argc; ++i) rows.push_back(std::atoll(argv[i]));
  if (rows.empty()) rows = {1, 2, 4, 8};
  constexpr int64_t kBytes = int64_t{512} << 20;
  Storage weights(DeviceKind::cpu, kBytes);
  weights.touch();
  const Kernels k = cpu_kernels();
  for (int64_t i = 0; i < kBytes; i += 2) reinterpret_cast<uint16_t*>(weights.data())[i / 2] = 0x3c00;
  const double peak = measure_read_bandwidth();
  std::printf("read %.1f GB/s\n", peak * 1e-9);
  for (DType type : {DType::f32, DType::bf16}) {
    for (auto [width, depth] :
         {std::pair<int64_t, int64_t>{2304, 768}, {4096, 768}, {768, 2048}, {6144, 2048}, {2048, 8192}, {32000, 768}}) {
      const int64_t bytes = width * depth * size_of(type), count = kBytes / bytes;
      std::printf("%-5s [%5ld x %4ld]", std::string(name(type)).c_str(), static_cast<long>(width), static_cast<long>(depth));
      for (int64_t m : rows) {
        Storage a(DeviceKind::cpu, m * depth * 4), out(DeviceKind::cpu, m * width * 4);
        double best = 1e30;
        std::vector<std::byte> scratch;
        for (int again = 0; again < 4; ++again) {
          const double began = now();
          for (int64_t i = 0; i < count; ++i) {
            Matmul x{view_of(a.data(), type, {m, depth}),
                     view_of(weights.data() + i * bytes, type, {width, depth}),
                     {},
                     view_of(out.data(), type, {m, width}),
                     false,
                     true};
            scratch.resize(static_cast<size_t>(k.of<Matmul>().workspace(x, thread_count())));
            k.of<Matmul>().run(x, scratch.data());
          }
          best = std::min(best, now() - began);
        }
        std::printf("  %ld rows: %5.1f GB/s %.2f", static_cast<long>(m), bytes * count / best * 1e-9,
                    bytes * count / best / peak);
      }
      std::printf("\n");
    }
  }
}
