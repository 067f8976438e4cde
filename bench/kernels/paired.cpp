// Products of a training step and of prefill, relative to the speed of the cores at the same moment. Before and after
// each product, a loop of fused multiply-adds runs on as many threads for a millisecond. If other processes disturb the
// machine, the loop shows it, and the quotient shows the loss of the kernel. Usage: bench_kernels_paired [rounds]
// [tokens]
#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "device/device.h"
#include "kernels/kernels.h"

namespace ravine {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

__attribute__((target("avx512f"))) void fma_loop(int64_t rounds, float* sink) {
  __m512 s[12], a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
#pragma GCC unroll 12
  for (int i = 0; i < 12; ++i) s[i] = a;
  for (int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) {
      s[i] = _mm512_fmadd_ps(s[i], a, b);
      asm volatile("" : "+v"(s[i]));
    }
#pragma GCC unroll 12
  for (int i = 0; i < 12; ++i) *sink += _mm512_cvtss_f32(s[i]);
}

// Returns the FLOP/s of the loop, measured over about a millisecond.
double loop_rate() {
  constexpr int64_t kRounds = 1 << 19;
  std::vector<float> sink(64);
  const double t = now();
  parallel_for(thread_count(), [&](int64_t i) { fma_loop(kRounds, &sink[16 * i]); });
  return 2.0 * 16 * 12 * kRounds * thread_count() / (now() - t);
}

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

struct Array {
  Storage bytes;
  TensorView view;
  explicit Array(const Shape& shape)
      : bytes(DeviceKind::cpu, shape.count() * 4), view(view_of(bytes.data(), DType::f32, shape)) {
    for (int64_t i = 0; i < shape.count(); ++i)
      view.as<float>()[i] = static_cast<float>((i * 2654435761u >> 8) % 2001) * 1e-3f - 1;
  }
};

int run(int rounds, int64_t tokens) {
  const Kernels kernels = cpu_kernels();
  std::vector<double> loops, all;
  double flops = 0, seconds = 0;
  std::printf("%-24s %8s %8s %8s   of the loop beside it: median, quartiles\n", "", "GFLOP/s", "best", "loop");
  auto report = [&](const std::string& name, const Matmul& x) {
    const Kernel<Matmul>& entry = kernels.of<Matmul>();
    Storage workspace(DeviceKind::cpu, entry.workspace(x, thread_count()));
    entry.run(x, workspace.data());
    std::vector<double> rates, ratios, loop_rates;
    for (int i = 0; i < rounds; ++i) {
      const double before = loop_rate(), t = now();
      entry.run(x, workspace.data());
      const double rate = x.flops() / (now() - t), loop = (before + loop_rate()) / 2;
      rates.push_back(rate), ratios.push_back(rate / loop), loop_rates.push_back(loop);
    }
    loops.insert(loops.end(), loop_rates.begin(), loop_rates.end());
    std::sort(ratios.begin(), ratios.end());
    const double middle = ratios[ratios.size() / 2];
    std::printf("%-24s %8.1f %8.1f %8.1f   %.3f  %.3f %.3f\n", name.c_str(), median(rates) / 1e9,
                *std::max_element(rates.begin(), rates.end()) / 1e9, median(loop_rates) / 1e9, middle,
                ratios[ratios.size() / 4], ratios[ratios.size() * 3 / 4]);
    std::fflush(stdout);
    flops += x.flops(), seconds += x.flops() / middle;
  };
  struct Linear {
    const char* name;
    int64_t in, out;
  };
  for (const Linear& l : {Linear{"qkv", 768, 2304}, {"o", 768, 768}, {"gate_up", 768, 4096}, {"down", 2048, 768}}) {
    Array x({tokens, l.in}), w({l.out, l.in}), y({tokens, l.out}), dw({l.out, l.in});
    const std::string tag = std::string(".") + l.name;
    report("forward" + tag, {x.view, w.view, {}, y.view, false, true});
    report("dx" + tag, {y.view, w.view, {}, x.view});
    report("dw" + tag, {y.view, x.view, {}, dw.view, true, false, true, true});
  }
  std::printf("a step's products: %.3f of the loop beside them; the loop: median %.1f, most %.1f GFLOP/s\n", flops / seconds,
              median(loops) / 1e9, *std::max_element(loops.begin(), loops.end()) / 1e9);
  flops = seconds = 0;
  for (const Linear& l :
       {Linear{"1.2B.qkv", 2048, 6144}, {"1.2B.o", 2048, 2048}, {"1.2B.gate_up", 2048, 16384}, {"1.2B.down", 8192, 2048}}) {
    Array x({tokens, l.in}), w({l.out, l.in}), y({tokens, l.out});
    report(l.name, {x.view, w.view, {}, y.view, false, true});
  }
  std::printf("prefill's products, 1.2B: %.3f of the loop beside them\n", flops / seconds);
  return 0;
}

}  // namespace
}  // namespace ravine

int main(int argc, char** argv) {
  if (!__builtin_cpu_supports("avx512f"))
    return std::fputs("bench_kernels_paired: its loop is written for AVX-512, which this machine lacks\n", stderr), 1;
  return ravine::run(argc > 1 ? std::atoi(argv[1]) : 21, argc > 2 ? std::atoll(argv[2]) : 1024);
}
