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

// 12 chains hide the latency of two fused multiply-adds per cycle and fit into 16 registers. Returns the FLOPs of a
// round.
int64_t fma_loop(int64_t rounds, float* result) {
  Lanes a = all(0.999f), b = all(0.001f);
  Lanes s0 = a, s1 = a, s2 = a, s3 = a, s4 = a, s5 = a, s6 = a, s7 = a, s8 = a, s9 = a, s10 = a, s11 = a;
  for (int64_t r = 0; r < rounds; ++r) {
    // The compiler must not see that the chains are equal.
    asm volatile("" : "+x"(s0), "+x"(s1), "+x"(s2), "+x"(s3), "+x"(s4), "+x"(s5), "+x"(s6));
    asm volatile("" : "+x"(s7), "+x"(s8), "+x"(s9), "+x"(s10), "+x"(s11), "+x"(a), "+x"(b));
    s0 = hn::MulAdd(s0, a, b), s1 = hn::MulAdd(s1, a, b), s2 = hn::MulAdd(s2, a, b), s3 = hn::MulAdd(s3, a, b);
    s4 = hn::MulAdd(s4, a, b), s5 = hn::MulAdd(s5, a, b), s6 = hn::MulAdd(s6, a, b), s7 = hn::MulAdd(s7, a, b);
    s8 = hn::MulAdd(s8, a, b), s9 = hn::MulAdd(s9, a, b), s10 = hn::MulAdd(s10, a, b), s11 = hn::MulAdd(s11, a, b);
  }
  const Lanes x = hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), hn::Add(hn::Add(s4, s5), hn::Add(s6, s7)));
  *result = hn::GetLane(hn::SumOfLanes(f32s, hn::Add(x, hn::Add(hn::Add(s8, s9), hn::Add(s10, s11)))));
  return 24 * kLanes;
}

float read_run(const float* x, int64_t n) {
  Lanes a = zero(), b = zero(), c = zero(), d = zero();
  for (int64_t i = 0; i + 4 * kLanes <= n; i += 4 * kLanes) {
    a = hn::Add(a, hn::LoadU(f32s, x + i)), b = hn::Add(b, hn::LoadU(f32s, x + i + kLanes));
    c = hn::Add(c, hn::LoadU(f32s, x + i + 2 * kLanes)), d = hn::Add(d, hn::LoadU(f32s, x + i + 3 * kLanes));
  }
  return hn::GetLane(hn::SumOfLanes(f32s, hn::Add(hn::Add(a, b), hn::Add(c, d))));
}

// Copies with stores that bypass the caches. Both sides are aligned to 64 bytes.
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
#include <sched.h>
#include <time.h>

#include <atomic>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"
#include "kernels/cpu/bf16_dot.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu_id.h"
#include "kernels/peaks.h"

namespace ravine {
HWY_EXPORT(fma_loop);
HWY_EXPORT(read_run);
HWY_EXPORT(copy_run);
HWY_EXPORT(instruction_set);

namespace {

// Measures times and judges how reliable they are.
class Trust {
 public:
  // Returns the least time of f over `total` seconds. After one warm-up run it makes at least three runs, and more
  // until the best two agree, for at most three times `total`.
  template <class F>
  double best_time(double total, F&& f) {
    ran_ = std::min(ran_, core_share());
    f();
    const double begin = seconds_now();
    double best = 1e30, second = 1e30;
    const auto goes_on = [&](int i) {
      const double spent = seconds_now() - begin;
      return i < 3 || spent < total || (apart(best, second) > kPeaksAgree && spent < 3 * total);
    };
    for (int i = 0; goes_on(i); ++i) {
      const double t = seconds_now();
      f();
      const double took = seconds_now() - t;
      second = std::min(second, std::max(best, took)), best = std::min(best, took);
    }
    spread_ = std::max(spread_, apart(best, second));
    return best;
  }
  void copy_to(MachinePeaks& p) const {
    p.spread = spread_, p.ran = std::min(ran_, core_share());
    p.sure = p.spread <= kPeaksAgree && p.ran >= kQuietShare;
  }

 private:
  static double apart(double best, double second) { return 1 - best / second; }
  double spread_ = 0, ran_ = 1;
};

double fma_peak(Trust& trust) {
  constexpr int64_t kRounds = 500000;
  const int threads = thread_count();
  std::vector<float> sink(threads * 16);
  int64_t flops = 0;
  const double t = trust.best_time(0.08, [&] {
    parallel_for(threads, [&](int64_t i) {
      const int64_t per_round = HWY_DYNAMIC_DISPATCH(fma_loop)(kRounds, &sink[i * 16]);
      if (i == 0) flops = per_round;
    });
  });
  return static_cast<double>(flops) * kRounds * threads / t;
}

double dot_peak(Trust& trust) {
  if (!has_bf16_dot()) return 0;
  constexpr int64_t kRounds = 500000;
  const int threads = thread_count();
  std::vector<float> sink(threads * 16);
  const double t =
      trust.best_time(0.08, [&] { parallel_for(threads, [&](int64_t i) { sink[i * 16] = bf16_dot_loop(kRounds); }); });
  return 1024.0 * kRounds * threads / t;
}

double matmul_peak(DType type, Bf16Products products, Trust& trust) {
  constexpr int64_t kSizes[][3] = {{1024, 1024, 768}, {1024, 768, 2048}, {2048, 2048, 1024}};
  double best = 0;
  for (auto [m, n, k] : kSizes) {
    std::vector<float> a(m * k, 0.5f), b(n * k, 0.25f), out(m * n);
    const Matmul x{
        view_of(a.data(), type, {m, k}), view_of(b.data(), type, {n, k}), {}, view_of(out.data(), type, {m, n}), false, true};
    const Kernel<Matmul> entry = cpu_matmul(products);
    std::vector<char> workspace(entry.workspace(x, thread_count()));
    best = std::max(best, x.flops() / trust.best_time(0.06, [&] { entry.run(x, workspace.data()); }));
  }
  return best;
}

}  // namespace

namespace {

constexpr int64_t kFloats = int64_t{64} << 20, kFloatsOfRun = 1 << 16;

// Memory of kFloats floats, resident, aligned to cache lines.
class Buffer {
 public:
  explicit Buffer(float value) : data_(static_cast<float*>(::operator new (kFloats * 4, std::align_val_t{64}))) {
    parallel_for(kFloats / kFloatsOfRun, [&](int64_t i) { std::fill(run(i), run(i + 1), value); });
  }
  ~Buffer() { ::operator delete (data_, std::align_val_t{64}); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  float* run(int64_t i) const { return data_ + i * kFloatsOfRun; }

 private:
  float* data_;
};

double read_peak(const Buffer& from, Trust& trust) {
  std::vector<float> sink(kFloats / kFloatsOfRun);
  return 4.0 * kFloats / trust.best_time(0.25, [&] {
    parallel_for(kFloats / kFloatsOfRun,
                 [&](int64_t i) { sink[i] = HWY_DYNAMIC_DISPATCH(read_run)(from.run(i), kFloatsOfRun); });
  });
}

}  // namespace

double measure_read_bandwidth() {
  Trust trust;
  return read_peak(Buffer(1.0f), trust);
}

double core_share() {
  constexpr double kLooked = 0.01;  // seconds
  constexpr int64_t kRounds = 5000;
  cpu_set_t set;
  const int threads = thread_count(), cores = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : threads;
  std::vector<float> sink(threads * 16);
  std::atomic<int64_t> nanoseconds = 0;  // time on a core, summed over threads
  const auto used = [] {
    timespec t{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return int64_t{1'000'000'000} * t.tv_sec + t.tv_nsec;
  };
  // wakes the threads
  parallel_for(threads, [&](int64_t i) { HWY_DYNAMIC_DISPATCH(fma_loop)(kRounds, &sink[i * 16]); });
  const double begin = seconds_now();
  parallel_for(threads, [&](int64_t i) {
    const int64_t before = used();
    while (seconds_now() - begin < kLooked) HWY_DYNAMIC_DISPATCH(fma_loop)(kRounds, &sink[i * 16]);
    nanoseconds += used() - before;
  });
  return std::min(1.0, 1e-9 * static_cast<double>(nanoseconds) / ((seconds_now() - begin) * std::min(threads, cores)));
}

MachinePeaks measure_peaks(bool memory) {
  MachinePeaks p;
  Trust trust;
  const double fma = fma_peak(trust);
  p.f32_product = matmul_peak(DType::f32, Bf16Products::widen, trust);
  p.f32_flops = std::max(fma, p.f32_product);
  p.bf16_dot = dot_peak(trust);
  p.bf16_product = matmul_peak(DType::bf16, cpu_arithmetic(cpu_id()).products, trust);
  p.bf16_flops = std::max({fma, p.bf16_dot, p.bf16_product});  // operands may also be widened
  trust.copy_to(p);
  if (!memory) return p;
  const Buffer from(1.0f), to(0.0f);
  p.read_bytes = read_peak(from, trust);
  p.copy_bytes = 8.0 * kFloats / trust.best_time(0.25, [&] {
    parallel_for(kFloats / kFloatsOfRun, [&](int64_t i) {
      HWY_DYNAMIC_DISPATCH(copy_run)(from.run(i), to.run(i), kFloatsOfRun);
    });
  });
  trust.copy_to(p);
  return p;
}

std::string MachinePeaks::doubt() const {
  const char* why = "a step has reached more than was measured";
  if (ran < kQuietShare)
    why = "other programs ran beside the measurement";
  else if (spread > kPeaksAgree)
    why = "no two of its measurements agree";
  return fmt::format("that peak is not sure: {}; it may be more, and is measured again when nothing else runs", why);
}

bool cpu_has_bf16_dot() { return has_bf16_dot(); }
const char* cpu_instruction_set() { return HWY_DYNAMIC_DISPATCH(instruction_set)(); }

}  // namespace ravine
#endif
