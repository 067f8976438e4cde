// Speed of attention alone, for a script that alternates it with a peer (bench/attention_vs_torch.py). Prints
//   GFLOP/s forward, backward, both together; fraction of the probes beside each run (probe.h), likewise. Medians.
// FLOPs are those of the model: 4 D per pair forward, 8 D backward (the second computation of the scores does not count).
// Usage: bench_kernels_attention TOKENS HEADS HEAD_SIZE [f32|bf16] [runs] [kv heads]; threads by OMP_NUM_THREADS.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "bench/kernels/probe.h"
#include "device/device.h"
#include "kernels/kernels.h"

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

void run(int64_t tokens, int64_t heads, int64_t size, DType t, int runs, int64_t kv) {
  const int64_t wide = heads * size, narrow = kv * size, all = wide + 2 * narrow;
  Array qkv(t, tokens, all, 1), out(t, tokens, wide, 2), dout(t, tokens, wide, 3), dqkv(t, tokens, all, 4);
  Array lse(DType::f32, heads, tokens, 5);
  const std::vector<Segment> one{{0, tokens, 0, tokens}};
  const AttentionShape at{one, heads, kv, size, 1 / std::sqrt(static_cast<double>(size)), true, 0};
  auto q = [&](const Array& a) { return a.view.columns(0, wide); };
  auto k = [&](const Array& a) { return a.view.columns(wide, narrow); };
  auto v = [&](const Array& a) { return a.view.columns(wide + narrow, narrow); };
  const AttentionForward f{q(qkv), k(qkv), v(qkv), out.view, lse.view, at};
  const AttentionBackward b{dout.view, q(qkv), k(qkv), v(qkv), out.view, lse.view, q(dqkv), k(dqkv), v(dqkv), at};
  const Kernels table = cpu_kernels();
  Storage workspace(DeviceKind::cpu, std::max(table.of<AttentionForward>().workspace(f, thread_count()),
                                              table.of<AttentionBackward>().workspace(b, thread_count())));
  workspace.touch();
  const Speed x = speed_of(f.flops(), runs, [&] { table.of<AttentionForward>().run(f, workspace.data()); });
  const Speed y = speed_of(b.flops(), runs, [&] { table.of<AttentionBackward>().run(b, workspace.data()); });
  const Speed z = speed_of(f.flops() + b.flops(), runs, [&] {
    table.of<AttentionForward>().run(f, workspace.data());
    table.of<AttentionBackward>().run(b, workspace.data());
  });
  std::printf("%.1f %.1f %.1f %.3f %.3f %.3f\n", x.flops * 1e-9, y.flops * 1e-9, z.flops * 1e-9, x.fraction, y.fraction,
              z.fraction);
}

}  // namespace
}  // namespace ravine

int main(int argc, char** argv) {
  if (argc < 4) return std::fputs("usage: TOKENS HEADS HEAD_SIZE [f32|bf16] [runs] [kv heads]\n", stderr), 2;
  const bool narrow = argc > 4 && !std::strcmp(argv[4], "bf16");
  ravine::run(std::atoll(argv[1]), std::atoll(argv[2]), std::atoll(argv[3]), narrow ? ravine::DType::bf16 : ravine::DType::f32,
              argc > 5 ? std::atoi(argv[5]) : 10, argc > 6 ? std::atoll(argv[6]) : std::atoll(argv[2]));
}
