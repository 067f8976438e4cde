// Measures the bandwidth of the row kernels and of a copy, in GB/s of the bytes that the kernel must read and write.
// Kernel and a copy of 512 MiB (read and written) alternate, best of 9 each. So the kernel reads from memory, and both
// run at the same speed of the machine. Usage: bench_kernels_rows [tokens] [channels] [vocabulary] [part of a name]
// OMP_NUM_THREADS sets the threads.
#include "kernels/cpu/rows.h"

#include <emmintrin.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "device/device.h"

using namespace ravine;

namespace {

double seconds(const std::function<void()>& f) {
  const auto from = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
}

struct Bench {
  static constexpr int64_t kBytes = int64_t{256} << 20;
  Storage from{DeviceKind::cpu, kBytes}, to{DeviceKind::cpu, kBytes};
  const Kernels kernels = cpu_kernels();
  std::string only;
  std::vector<std::unique_ptr<Storage>> kept;
  Bench() { from.touch(), to.touch(); }

  // Bypasses the caches: the target is not read before it is written.
  double copy_seconds() {
    constexpr int64_t kPiece = int64_t{1} << 18;
    return seconds([&] {
      parallel_for(kBytes / kPiece, [&](int64_t i) {
        const auto* x = reinterpret_cast<const __m128i*>(from.data() + i * kPiece);
        auto* y = reinterpret_cast<__m128i*>(to.data() + i * kPiece);
        for (int64_t j = 0; j < kPiece / 16; ++j) _mm_stream_si128(y + j, _mm_load_si128(x + j));
        _mm_sfence();
      });
    });
  }

  TensorView make(DType t, int64_t rows, int64_t cols) {
    kept.push_back(std::make_unique<Storage>(DeviceKind::cpu, rows * cols * size_of(t)));
    kept.back()->touch();
    TensorView v = view_of(kept.back()->data(), t, {rows, cols});
    if (t == DType::i32 || t == DType::i64 || t == DType::f64) return v;
    parallel_for(rows, [&](int64_t r) {
      std::vector<float> row(cols);
      for (int64_t c = 0; c < cols; ++c) row[c] = static_cast<float>((r * 31 + c * 17) % 1000 - 500) * 0.004f;
      convert_run(DType::f32, row.data(), t, static_cast<char*>(v.data) + r * cols * size_of(t), cols);
    });
    return v;
  }

  template <class Args>
  void show(const std::string& what, const Args& args, double bytes) {
    if (what.find(only) == std::string::npos) return;
    const Kernel<Args>& kernel = kernels.of<Args>();
    Storage workspace(DeviceKind::cpu, kernel.workspace(args, thread_count()) + 64);
    workspace.touch();
    double copy = 1e30, s = 1e30;
    for (int i = 0; i < 9; ++i) {
      copy = std::min(copy, copy_seconds());
      s = std::min(s, seconds([&] { kernel.run(args, workspace.data()); }));
    }
    const double copied = 2.0 * kBytes / copy;
    fmt::print("{:<44} {:8.3f} ms {:7.1f} GB/s; copy {:5.1f} GB/s; {:5.2f}\n", what, s * 1e3, bytes / s * 1e-9, copied * 1e-9,
               bytes / s / copied);
  }
};

}  // namespace

int main(int argc, char** argv) {
  const int64_t n = argc > 1 ? std::atoll(argv[1]) : 16384, c = argc > 2 ? std::atoll(argv[2]) : 1024;
  const int64_t vocabulary = argc > 3 ? std::atoll(argv[3]) : 32000;
  Bench b;
  if (argc > 4) b.only = argv[4];
  fmt::print("{} threads; {} tokens of {} channels, vocabulary {}\n", thread_count(), n, c, vocabulary);
  const double e = static_cast<double>(n) * c;
  TensorView none;
  auto flat = [](TensorView v) { return view_of(v.data, v.dtype, {v.count()}); };
  TensorView ids = flat(b.make(DType::i32, 1, n)), sequences = flat(b.make(DType::i64, 1, n));
  for (int64_t i = 0; i < n; ++i)
    ids.as<int32_t>()[i] = static_cast<int32_t>((i * i * 7919 + i) % vocabulary % (1 + i % vocabulary));
  TensorView positions = flat(b.make(DType::i32, 1, n));
  for (int64_t i = 0; i < n; ++i) positions.as<int32_t>()[i] = static_cast<int32_t>(i % 1024);
  TensorView weight = flat(b.make(DType::f32, 1, c)), dweight = flat(b.make(DType::f32, 1, c)),
             rstd = flat(b.make(DType::f32, 1, n));
  TensorView bias = flat(b.make(DType::f32, 1, c)), dbias = flat(b.make(DType::f32, 1, c)),
             mean = flat(b.make(DType::f32, 1, n));
  TensorView head_weight = flat(b.make(DType::f32, 1, 64)), head_rstd = b.make(DType::f32, n, c / 64);
  TensorView table = b.make(DType::f32, 1024, 64);
  for (int64_t i = 0; i < table.count(); ++i) table.as<float>()[i] = i % 64 < 32 ? 0.8f : 0.6f;
  TensorView x = b.make(DType::f32, n, c), sum = b.make(DType::f32, n, c), dx = b.make(DType::f32, n, c);
  for (DType t : {DType::f32, DType::bf16, DType::f16}) {
    const double w = static_cast<double>(size_of(t));
    const size_t kept = b.kept.size();
    auto label = [&](const char* what) { return fmt::format("{} {}", what, name(t)); };
    TensorView branch = b.make(t, n, c), out = b.make(t, n, c), third = b.make(t, n, c);
    TensorView fourth = b.make(t, n, c), fifth = b.make(t, n, c);
    b.show(label("rms_norm, residual add, x f32, out"), RmsNormForward{x, branch, weight, sum, out, rstd}, e * (8 + 2 * w));
    b.show(label("rms_norm alone, x and out"), RmsNormForward{branch, none, weight, none, out, rstd}, e * 2 * w);
    b.show(label("rms_norm_backward, dsum, dbranch, dout"), RmsNormBackward{out, x, weight, rstd, sum, dx, third, dweight},
           e * (12 + 2 * w));
    b.show(label("layer_norm, residual add, x f32, out"), LayerNormForward{x, branch, weight, bias, sum, out, mean, rstd},
           e * (8 + 2 * w));
    b.show(label("layer_norm_backward, dsum, dbranch, dout"),
           LayerNormBackward{out, x, weight, mean, rstd, sum, dx, third, dweight, dbias}, e * (12 + 2 * w));
    b.show(label("head_norm of 64"), HeadNormForward{branch, head_weight, out, head_rstd}, e * 2 * w);
    b.show(label("head_norm_backward of 64"),
           HeadNormBackward{out, branch, head_weight, head_rstd, third, flat(dweight).columns(0, 64)}, e * 3 * w);
    b.show(label("gelu"), GeluForward{branch, out, GeluForm::exact}, e * 2 * w);
    b.show(label("gelu_backward"), GeluBackward{branch, out, third, GeluForm::exact}, e * 3 * w);
    b.show(label("gelu tanh"), GeluForward{branch, out, GeluForm::tanh}, e * 2 * w);
    b.show(label("gelu_backward tanh"), GeluBackward{branch, out, third, GeluForm::tanh}, e * 3 * w);
    b.show(label("unit_rows, x f32, out"), UnitRowsForward{x, out}, e * (4 + w));
    b.show(label("sum_rows"), SumRows{out, dweight}, e * w);
    b.show(label("rope"), Rope{out, positions, table, c / 64}, e * 2 * w);
    b.show(label("swiglu"), SwigluForward{branch, out, third}, e * 3 * w);
    b.show(label("swiglu_backward"), SwigluBackward{branch, out, third, fourth, fifth}, e * 5 * w);
    b.show(label("dropout"), Dropout{out, positions, sequences, third, 0.1, 7, 1}, e * 2 * w);
    b.show(label("add"), Add{branch, out, third}, e * 3 * w);
    b.show(label("cast from f32 to"), Cast{x, out}, e * (4 + w));
    b.show(label("cast to f32 from"), Cast{out, x}, e * (4 + w));
    b.show(label("fill 1"), Fill{out, 1}, e * w);
    TensorView embedding = b.make(t, vocabulary, c);
    b.show(label("embedding"), EmbeddingForward{ids, embedding, out}, e * 2 * w);
    TensorView dembedding = b.make(DType::f32, vocabulary, c);
    b.show(label("embedding_backward, dweight f32, dout"), EmbeddingBackward{ids, out, dembedding},
           e * w + 4.0 * vocabulary * c);
    TensorView grad = flat(dembedding);
    ExactSum squares;
    b.show(label("sum_squares"), SumSquares{flat(out), &squares}, e * w);
    const int64_t few = 512;
    TensorView logits = b.make(DType::f32, few, vocabulary), dlogits = b.make(t, few, vocabulary);
    TensorView labels = view_of(positions.data, DType::i32, {few}), losses = flat(b.make(DType::f64, 1, few));
    b.show(label("cross_entropy, logits f32, dlogits"), CrossEntropy{logits, labels, losses, dlogits},
           few * vocabulary * (4.0 + w));
    const int64_t p = grad.count();
    TensorView param = flat(b.make(DType::f32, 1, p)), m = flat(b.make(DType::f32, 1, p)), v = flat(b.make(DType::f32, 1, p));
    Fill zero{v, 0.01};
    b.kernels.of<Fill>().run(zero, nullptr);
    double values[kStepScalars] = {1e-4, 0.1, 0.05, 1};
    UpdateSpan span{0, p, 1, 0.1};
    TensorView copy = t == DType::f32 ? none : flat(b.make(t, 1, p));
    AdamW adamw{param, grad, m, v, copy, view_of(values, DType::f64, {kStepScalars}), {&span, 1}};
    b.show(label("adamw, copy"), adamw, p * (28.0 + (t == DType::f32 ? 0 : w)));
    Sgd sgd{param, grad, m, copy, view_of(values, DType::f64, {kStepScalars}), {&span, 1}, 0.9};
    b.show(label("sgd, momentum, copy"), sgd, p * (20.0 + (t == DType::f32 ? 0 : w)));
    TensorView scores = b.make(t, 2048, 2048), probs = b.make(t, 2048, 2048), dscores = b.make(t, 2048, 2048);
    b.show(label("softmax, not causal"), SoftmaxForward{scores, probs, 0.1, false}, scores.count() * 2 * w);
    b.show(label("softmax_backward"), SoftmaxBackward{probs, scores, dscores}, scores.count() * 3 * w);
    b.kept.resize(kept);
  }
}
