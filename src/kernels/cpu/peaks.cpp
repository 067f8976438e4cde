#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/peaks.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

// 12 chains hide the latency of two fused multiply-adds per cycle and fit into 16 registers. Returns the FLOPs of a round.
int64_t fma_loop(int64_t rounds, float* result) {
  Lanes sum[12];
  for (auto& s : sum) s = all(1.0f);
  Lanes a = all(0.999f), b = all(0.001f);
  for (int64_t r = 0; r < rounds; ++r) {
    asm volatile("" : "+x"(a), "+x"(b));
    sum[0] = hn::MulAdd(sum[0], a, b), sum[1] = hn::MulAdd(sum[1], a, b), sum[2] = hn::MulAdd(sum[2], a, b);
    sum[3] = hn::MulAdd(sum[3], a, b), sum[4] = hn::MulAdd(sum[4], a, b), sum[5] = hn::MulAdd(sum[5], a, b);
    sum[6] = hn::MulAdd(sum[6], a, b), sum[7] = hn::MulAdd(sum[7], a, b), sum[8] = hn::MulAdd(sum[8], a, b);
    sum[9] = hn::MulAdd(sum[9], a, b), sum[10] = hn::MulAdd(sum[10], a, b), sum[11] = hn::MulAdd(sum[11], a, b);
  }
  for (int i = 1; i < 12; ++i) sum[0] = hn::Add(sum[0], sum[i]);
  *result = hn::GetLane(hn::SumOfLanes(f32s, sum[0]));
  return 24 * kLanes;
}

float read_run(const float* x, int64_t n) {
  Lanes s[8];
  for (auto& v : s) v = zero();
  for (int64_t i = 0; i + 8 * kLanes <= n; i += 8 * kLanes)
    for (int j = 0; j < 8; ++j) s[j] = hn::Add(s[j], hn::LoadU(f32s, x + i + j * kLanes));
  for (int j = 1; j < 8; ++j) s[0] = hn::Add(s[0], s[j]);
  return hn::GetLane(hn::SumOfLanes(f32s, s[0]));
}

// Past the caches; both sides aligned to 64 bytes.
void copy_run(const float* from, float* to, int64_t n) {
  for (int64_t i = 0; i + kLanes <= n; i += kLanes) hn::Stream(hn::Load(f32s, from + i), f32s, to + i);
  hwy::FlushStream();
}

const char* instruction_set() {
  if (kLanes == 16) return "avx512";
  return kLanes == 8 ? "avx2" : "scalar";
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <chrono>
#include <memory>
#include <vector>

#include "kernels/cpu/bf16_dot.h"
#include "kernels/cpu/cpu.h"

namespace ravine {
HWY_EXPORT(fma_loop);
HWY_EXPORT(read_run);
HWY_EXPORT(copy_run);
HWY_EXPORT(instruction_set);

namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Least time of f over `total` seconds, at least three runs after one to warm up.
template <class F>
double best_time(double total, F&& f) {
  f();
  const double begin = seconds();
  double best = 1e30;
  for (int i = 0; i < 3 || seconds() - begin < total; ++i) {
    const double t = seconds();
    f();
    best = std::min(best, seconds() - t);
  }
  return best;
}

double fma_peak() {
  constexpr int64_t kRounds = 200000;
  const int threads = thread_count();
  std::vector<float> sink(threads * 16);
  int64_t flops = 0;
  const double t = best_time(0.08, [&] {
    parallel_for(threads, [&](int64_t i) {
      const int64_t per_round = HWY_DYNAMIC_DISPATCH(fma_loop)(kRounds, &sink[i * 16]);
      if (i == 0) flops = per_round;
    });
  });
  return static_cast<double>(flops) * kRounds * threads / t;
}

double dot_peak() {
  if (!has_bf16_dot()) return 0;
  constexpr int64_t kRounds = 200000;
  const int threads = thread_count();
  std::vector<float> sink(threads * 16);
  const double t = best_time(0.08, [&] { parallel_for(threads, [&](int64_t i) { sink[i * 16] = bf16_dot_loop(kRounds); }); });
  return 1024.0 * kRounds * threads / t;
}

double matmul_peak(DType type) {
  constexpr int64_t kSizes[][3] = {{1024, 1024, 768}, {1024, 768, 2048}, {2048, 2048, 1024}};
  double best = 0;
  for (auto [m, n, k] : kSizes) {
    std::vector<float> a(m * k, 0.5f), b(n * k, 0.25f), out(m * n);
    const Matmul x{
        view_of(a.data(), type, {m, k}), view_of(b.data(), type, {n, k}), {}, view_of(out.data(), type, {m, n}), false, true};
    const Kernel<Matmul> entry = matmul_entry();
    std::vector<char> workspace(entry.workspace(x, thread_count()));
    best = std::max(best, x.flops() / best_time(0.06, [&] { entry.run(x, workspace.data()); }));
  }
  return best;
}

}  // namespace

MachinePeaks measure_peaks() {
  MachinePeaks p;
  const double fma = fma_peak();
  p.f32_flops = std::max(fma, matmul_peak(DType::f32));
  // Operands of 16 bits may also be widened and multiplied in f32.
  p.bf16_flops = std::max({fma, dot_peak(), matmul_peak(DType::bf16)});
  constexpr int64_t kCount = int64_t{64} << 20, kRun = 1 << 16;
  const std::align_val_t line{64};
  auto release = [line](float* x) { ::operator delete(x, line); };
  std::unique_ptr<float, decltype(release)> from(static_cast<float*>(::operator new(kCount * 4, line)), release);
  std::unique_ptr<float, decltype(release)> to(static_cast<float*>(::operator new(kCount * 4, line)), release);
  std::vector<float> sink(kCount / kRun);
  parallel_for(kCount / kRun, [&](int64_t i) {
    std::fill(from.get() + i * kRun, from.get() + (i + 1) * kRun, 1.0f);
    std::fill(to.get() + i * kRun, to.get() + (i + 1) * kRun, 0.0f);
  });
  p.read_bytes =
      4.0 * kCount / best_time(0.25, [&] {
        parallel_for(kCount / kRun, [&](int64_t i) { sink[i] = HWY_DYNAMIC_DISPATCH(read_run)(from.get() + i * kRun, kRun); });
      });
  p.copy_bytes = 8.0 * kCount / best_time(0.25, [&] {
                   parallel_for(kCount / kRun, [&](int64_t i) {
                     HWY_DYNAMIC_DISPATCH(copy_run)(from.get() + i * kRun, to.get() + i * kRun, kRun);
                   });
                 });
  return p;
}

const char* cpu_instruction_set() { return HWY_DYNAMIC_DISPATCH(instruction_set)(); }

}  // namespace ravine
#endif
