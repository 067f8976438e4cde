// Speed of the kernels that carry a training step, for the 134M Llama (hidden 768, 12 heads of 64, ffn 2048, vocabulary 32000).
// Prints one line per case: name, GFLOP/s (best of several runs). Usage: bench_kernels_heavy [f32|bf16] [threads]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "kernels/kernels.h"

namespace ravine {
namespace {

struct Array {
  std::vector<char> bytes;
  TensorView view;
  Array(DType t, const Shape& shape, float scale = 1)
      : bytes(shape.count() * size_of(t)), view(view_of(bytes.data(), t, shape)) {
    for (int64_t i = 0; i < shape.count(); ++i) {
      const float x = static_cast<float>((i * 2654435761u >> 8) % 2001) * 1e-3f * scale - scale;
      if (t == DType::f32) view.as<float>()[i] = x;
      if (t == DType::bf16) view.as<bf16>()[i] = bf16(x);
    }
  }
};

template <class Args>
void report(const std::string& name, const Kernel<Args>& entry, const Args& args, int runs) {
  std::vector<char> workspace(entry.workspace(args, thread_count()));
  double best = 1e30;
  for (int i = 0; i <= runs; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    entry.run(args, workspace.data());
    const double t = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (i > 0) best = std::min(best, t);
  }
  std::printf("%s %.1f\n", name.c_str(), args.flops() / best / 1e9);
  std::fflush(stdout);
}

void products(const Kernels& k, DType t, int64_t tokens) {
  struct Layer {
    const char* name;
    int64_t in, out;
  };
  for (const Layer& l : {Layer{"qkv", 768, 2304}, {"o", 768, 768}, {"gate_up", 768, 4096}, {"down", 2048, 768}}) {
    Array x(t, {tokens, l.in}), w(t, {l.out, l.in}), y(t, {tokens, l.out}), dw(DType::f32, {l.out, l.in});
    const std::string tag = std::to_string(tokens) + "." + l.name;
    report("forward." + tag, k.matmul, {x.view, w.view, {}, y.view, false, true}, 5);
    report("dx." + tag, k.matmul, {y.view, w.view, {}, x.view}, 5);
    report("dw." + tag, k.matmul, {y.view, x.view, {}, dw.view, true, false, true, true}, 5);
  }
}

void attention(const Kernels& k, DType t, int64_t tokens) {
  constexpr int64_t kHeads = 12, kSize = 64, kWidth = kHeads * kSize;
  Array qkv(t, {tokens, 3 * kWidth}), out(t, {tokens, kWidth}), dout(t, {tokens, kWidth}), dqkv(t, {tokens, 3 * kWidth});
  Array lse(DType::f32, {kHeads, tokens});
  const std::vector<Segment> one{{0, tokens, 0, tokens}};
  const AttentionShape at{one, kHeads, kHeads, kSize, 1 / std::sqrt(double{kSize}), true, 0};
  auto part = [](const Array& a, int i) { return a.view.columns(i * kWidth, kWidth); };
  report("attention." + std::to_string(tokens), k.attention, {part(qkv, 0), part(qkv, 1), part(qkv, 2), out.view, lse.view, at},
         5);
  report("attention_backward." + std::to_string(tokens), k.attention_backward,
         {dout.view, part(qkv, 0), part(qkv, 1), part(qkv, 2), out.view, lse.view, part(dqkv, 0), part(dqkv, 1), part(dqkv, 2),
          at},
         5);
}

void loss_head(const Kernels& k, DType t, int64_t tokens) {
  Array x(t, {tokens, 768}), w(t, {32000, 768}, 0.05f), dx(t, {tokens, 768}), dw(DType::f32, {32000, 768}),
      losses(DType::f64, {tokens});
  Array labels(DType::i32, {tokens});
  report("loss_head." + std::to_string(tokens), k.loss_head,
         {x.view, w.view, labels.view, losses.view, dx.view, dw.view, 1e-3, true}, 3);
}

void run(DType t) {
  const Kernels k = cpu_kernels();
  const MachinePeaks peaks = measure_peaks();
  std::printf("peak %.1f\n", (t == DType::f32 ? peaks.f32_flops : peaks.bf16_flops) / 1e9);
  for (int64_t tokens : {1024, 4096}) products(k, t, tokens), attention(k, t, tokens);
  loss_head(k, t, 1024);
}

}  // namespace
}  // namespace ravine

int main(int argc, char** argv) {
  if (argc > 2) ravine::set_thread_count(std::atoi(argv[2]));
  ravine::run(argc > 1 && !std::strcmp(argv[1], "bf16") ? ravine::DType::bf16 : ravine::DType::f32);
}
