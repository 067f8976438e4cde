// Measures the main kernels of a training step, for the 134M Llama (hidden 768, 12 heads of 64, ffn 2048, vocabulary
// 32000). Also measures the products of prefill, for this model and for a model with hidden 2048 and ffn 8192. Prints
// one line per case: name, GFLOP/s (best of several runs), fraction of the peak measured at the start.
// Usage: bench_kernels_heavy [f32|bf16|dot] [train|products|prefill] [threads]
// dot: bf16 by the dot product instruction.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "device/device.h"
#include "kernels/kernels.h"
#include "kernels/peaks.h"

namespace ravine {
namespace {

struct Array {
  Storage bytes;
  TensorView view;
  Array(DType t, const Shape& shape, float scale = 1)
      : bytes(DeviceKind::cpu, shape.count() * size_of(t)), view(view_of(bytes.data(), t, shape)) {
    for (int64_t i = 0; i < shape.count(); ++i) {
      const float x = static_cast<float>((i * 2654435761u >> 8) % 2001) * 1e-3f * scale - scale;
      if (t == DType::f32) view.as<float>()[i] = x;
      if (t == DType::bf16) view.as<bf16>()[i] = bf16(x);
    }
  }
};

struct Bench {
  Kernels kernels;
  DType type;
  double peak;

  template <class Args>
  void report(const std::string& name, const Kernel<Args>& entry, const Args& args, int runs) const {
    Storage workspace(DeviceKind::cpu, entry.workspace(args, thread_count()));
    double best = 1e30;
    for (int i = 0; i <= runs; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      entry.run(args, workspace.data());
      const double t = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      if (i > 0) best = std::min(best, t);
    }
    const double rate = args.flops() / best;
    std::printf("%-24s %6.1f  %.3f\n", name.c_str(), rate / 1e9, rate / peak);
    std::fflush(stdout);
    flops += args.flops(), seconds += best;
  }
  // Prints the total of all cases since the last total.
  void total(const std::string& name) const {
    std::printf("%-24s %6.1f  %.3f\n", name.c_str(), flops / seconds / 1e9, flops / seconds / peak);
    flops = seconds = 0;
  }
  mutable double flops = 0, seconds = 0;
};

struct Layer {
  const char* name;
  int64_t in, out;
};

// Measures the three products of each linear of a layer.
void products(const Bench& b, int64_t tokens) {
  for (const Layer& l : {Layer{"qkv", 768, 2304}, {"o", 768, 768}, {"gate_up", 768, 4096}, {"down", 2048, 768}}) {
    Array x(b.type, {tokens, l.in}), w(b.type, {l.out, l.in}), y(b.type, {tokens, l.out}), dw(DType::f32, {l.out, l.in});
    const std::string tag = std::to_string(tokens) + "." + l.name;
    b.report("forward." + tag, b.kernels.of<Matmul>(), {x.view, w.view, {}, y.view, false, true}, 7);
    b.report("dx." + tag, b.kernels.of<Matmul>(), {y.view, w.view, {}, x.view}, 7);
    b.report("dw." + tag, b.kernels.of<Matmul>(), {y.view, x.view, {}, dw.view, true, false, false, true}, 7);
    b.report("dw_added." + tag, b.kernels.of<Matmul>(), {y.view, x.view, {}, dw.view, true, false, true, true}, 7);
  }
  b.total("products." + std::to_string(tokens));
}

void prefill(const Bench& b, int64_t tokens, const std::string& model, const std::vector<Layer>& layers) {
  for (const Layer& l : layers) {
    Array x(b.type, {tokens, l.in}), w(b.type, {l.out, l.in}), y(b.type, {tokens, l.out});
    b.report(model + "." + std::to_string(tokens) + "." + l.name, b.kernels.of<Matmul>(),
             {x.view, w.view, {}, y.view, false, true}, 4);
  }
  b.total(model + "." + std::to_string(tokens));
}

void attention(const Bench& b, int64_t tokens) {
  const DType t = b.type;
  constexpr int64_t kHeads = 12, kSize = 64, kWidth = kHeads * kSize;
  Array qkv(t, {tokens, 3 * kWidth}), out(t, {tokens, kWidth}), dout(t, {tokens, kWidth}), dqkv(t, {tokens, 3 * kWidth});
  Array lse(DType::f32, {kHeads, tokens});
  const std::vector<Segment> one{{0, tokens, 0, tokens}};
  const AttentionShape at{one, kHeads, kHeads, kSize, 1 / std::sqrt(double{kSize}), true, 0};
  auto part = [](const Array& a, int i) { return a.view.columns(i * kWidth, kWidth); };
  b.report("attention." + std::to_string(tokens), b.kernels.of<AttentionForward>(),
           {part(qkv, 0), part(qkv, 1), part(qkv, 2), out.view, lse.view, at}, 5);
  b.report("attention_backward." + std::to_string(tokens), b.kernels.of<AttentionBackward>(),
           {dout.view, part(qkv, 0), part(qkv, 1), part(qkv, 2), out.view, lse.view, part(dqkv, 0), part(dqkv, 1),
            part(dqkv, 2), at},
           5);
}

void loss_head(const Bench& b, int64_t tokens) {
  const DType t = b.type;
  Array x(t, {tokens, 768}), w(t, {32000, 768}, 0.05f), dx(t, {tokens, 768}), dw(DType::f32, {32000, 768}),
      losses(DType::f64, {tokens});
  Array labels(DType::i32, {tokens});
  b.report("loss_head." + std::to_string(tokens), b.kernels.of<LossHead>(),
           {x.view, w.view, labels.view, losses.view, dx.view, dw.view, 1e-3, true}, 3);
}

int run(const std::string& type, const std::string& what) {
  const Bf16Products how = type == "dot" ? Bf16Products::dot : Bf16Products::widen;
  if (how == Bf16Products::dot && !cpu_has_bf16_dot()) return std::fputs("this machine has no bf16 dot product\n", stderr), 1;
  const MachinePeaks peaks = measure_peaks();
  const double peak = type == "f32" ? peaks.f32_flops : type == "dot" ? peaks.bf16_dot : peaks.bf16_flops;
  const Bench b{cpu_kernels(how), type == "f32" ? DType::f32 : DType::bf16, peak};
  std::printf("%s, %d threads, peak %.1f GFLOP/s\n", type.c_str(), thread_count(), peak / 1e9);
  if (what == "prefill") {
    for (int64_t tokens : {512, 1024}) {
      prefill(b, tokens, "134M", {{"qkv", 768, 2304}, {"o", 768, 768}, {"gate_up", 768, 4096}, {"down", 2048, 768}});
      prefill(b, tokens, "1.2B", {{"qkv", 2048, 6144}, {"o", 2048, 2048}, {"gate_up", 2048, 16384}, {"down", 8192, 2048}});
    }
    return 0;
  }
  for (int64_t tokens : {1024, 4096}) {
    products(b, tokens);
    if (what == "train") attention(b, tokens);
  }
  if (what == "train") loss_head(b, 1024);
  return 0;
}

}  // namespace
}  // namespace ravine

int main(int argc, char** argv) {
  if (argc > 3) ravine::set_thread_count(std::atoi(argv[3]));
  return ravine::run(argc > 1 ? argv[1] : "f32", argc > 2 ? argv[2] : "train");
}
