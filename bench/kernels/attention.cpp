// Measures the speed of attention alone. bench/attention_vs_torch.py runs it in turns with torch.
//
// Prints medians: GFLOP/s forward, backward and both together, then their fractions of the probes next to each run
// (probe.h). Counts the FLOPs of the model: 4 D per pair forward, 8 D backward. The second computation of the scores is
// not counted. With "full" it prints the time without a mask divided by the time with a causal mask, forward and
// backward. The runs alternate.
// Usage: bench_kernels_attention TOKENS HEADS HEAD_SIZE [f32|bf16] [runs] [kv heads] [full]
// OMP_NUM_THREADS sets the threads.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "bench/kernels/probe.h"
#include "device/device.h"
#include "kernels/cpu_id.h"

namespace ravine {
namespace {

struct Array {
  Storage memory;
  TensorView view;
  Array(DType t, int64_t rows, int64_t cols, uint32_t seed) : memory(DeviceKind::cpu, rows * cols * size_of(t)) {
    memory.touch();
    view = view_of(memory.data(), t, {rows, cols});
    for (int64_t i = 0; i < rows * cols; ++i) {
      uint32_t x = static_cast<uint32_t>(i) * 2654435761u + seed * 40503u;
      x ^= x >> 15, x *= 2246822519u, x ^= x >> 13;
      const float value = static_cast<float>(static_cast<int32_t>(x)) * 0x1p-30f;
      if (t == DType::f32) view.as<float>()[i] = value;
      if (t == DType::bf16) view.as<bf16>()[i] = bf16(value);
    }
  }
};

// One shape, with a causal mask or without a mask. lse has the type that training uses.
struct Case {
  Case(int64_t tokens, int64_t heads, int64_t size, DType t, int64_t kv, bool causal)
      : wide(heads * size),
        narrow(kv * size),
        qkv(t, tokens, wide + 2 * narrow, 1),
        out(t, tokens, wide, 2),
        dout(t, tokens, wide, 3),
        dqkv(t, tokens, wide + 2 * narrow, 4),
        lse(t == DType::f32 ? DType::f64 : DType::f32, heads, tokens, 5),
        one{{0, tokens, 0, tokens}},
        at{one, heads, kv, size, 1 / std::sqrt(static_cast<double>(size)), causal, 0},
        f{q(qkv), k(qkv), v(qkv), out.view, lse.view, at},
        b{dout.view, q(qkv), k(qkv), v(qkv), out.view, lse.view, q(dqkv), k(dqkv), v(dqkv), at},
        workspace(DeviceKind::cpu, std::max(table.of<AttentionForward>().workspace(f, thread_count()),
                                            table.of<AttentionBackward>().workspace(b, thread_count()))) {
    workspace.touch();
  }
  void forward() { table.of<AttentionForward>().run(f, workspace.data()); }
  void backward() { table.of<AttentionBackward>().run(b, workspace.data()); }

  TensorView q(const Array& a) const { return a.view.columns(0, wide); }
  TensorView k(const Array& a) const { return a.view.columns(wide, narrow); }
  TensorView v(const Array& a) const { return a.view.columns(wide + narrow, narrow); }
  const Kernels table = cpu_kernels(cpu_arithmetic(cpu_id()).products);
  int64_t wide, narrow;
  Array qkv, out, dout, dqkv, lse;
  std::vector<Segment> one;
  AttentionShape at;
  AttentionForward f;
  AttentionBackward b;
  Storage workspace;
};

void speeds(Case&& c, int runs) {
  const Speed x = speed_of(c.f.flops(), runs, [&] { c.forward(); });
  const Speed y = speed_of(c.b.flops(), runs, [&] { c.backward(); });
  const Speed z = speed_of(c.f.flops() + c.b.flops(), runs, [&] { c.forward(), c.backward(); });
  std::printf("%.1f %.1f %.1f %.3f %.3f %.3f\n", x.flops * 1e-9, y.flops * 1e-9, z.flops * 1e-9, x.fraction, y.fraction,
              z.fraction);
}

// Prints the time without a mask divided by the time with a causal mask; the runs alternate.
void ratios(Case&& causal, Case&& full, int runs) {
  std::vector<double> forward, backward;
  causal.forward(), full.forward(), causal.backward(), full.backward();
  for (int i = 0; i < runs; ++i) {
    const double few = seconds_of([&] { causal.forward(); }), many = seconds_of([&] { full.forward(); });
    const double few_back = seconds_of([&] { causal.backward(); }), many_back = seconds_of([&] { full.backward(); });
    forward.push_back(many / few), backward.push_back(many_back / few_back);
  }
  std::printf("%.2f %.2f\n", median(forward), median(backward));
}

}  // namespace
}  // namespace ravine

int main(int argc, char** argv) {
  if (argc < 4) return std::fputs("usage: TOKENS HEADS HEAD_SIZE [f32|bf16] [runs] [kv heads] [full]\n", stderr), 2;
  const int64_t tokens = std::atoll(argv[1]), heads = std::atoll(argv[2]), size = std::atoll(argv[3]);
  const ravine::DType t = argc > 4 && !std::strcmp(argv[4], "bf16") ? ravine::DType::bf16 : ravine::DType::f32;
  const int runs = argc > 5 ? std::atoi(argv[5]) : 10;
  const int64_t kv = argc > 6 ? std::atoll(argv[6]) : heads;
  if (argc > 7)
    ravine::ratios({tokens, heads, size, t, kv, true}, {tokens, heads, size, t, kv, false}, runs);
  else
    ravine::speeds({tokens, heads, size, t, kv, true}, runs);
}
