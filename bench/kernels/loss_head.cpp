// Measures the loss head: loss only, with dx, with dweight, with both. Prints one line each: name, GFLOP/s, fraction of
// the probes next to each run (probe.h). Usage: bench_kernels_loss_head [f32|bf16] [tokens] [channels] [vocabulary]
// [runs] OMP_NUM_THREADS sets the threads.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bench/kernels/probe.h"
#include "device/device.h"
#include "kernels/kernels.h"

namespace ravine {
namespace {

struct Array {
  Storage memory;
  TensorView view;
  Array(DType t, const Shape& shape, float scale) : memory(DeviceKind::cpu, shape.count() * size_of(t)) {
    memory.touch();
    view = view_of(memory.data(), t, shape);
    for (int64_t i = 0; i < shape.count(); ++i) {
      uint32_t x = static_cast<uint32_t>(i) * 2654435761u;
      x ^= x >> 15, x *= 2246822519u, x ^= x >> 13;
      const float value = static_cast<float>(static_cast<int32_t>(x)) * 0x1p-31f * scale;
      if (t == DType::f32) view.as<float>()[i] = value;
      if (t == DType::bf16) view.as<bf16>()[i] = bf16(value);
      if (t == DType::i32) view.as<int32_t>()[i] = static_cast<int32_t>(i * 31 % 1000);
    }
  }
};

void run(DType t, int64_t tokens, int64_t channels, int64_t vocabulary, int runs) {
  Array x(t, {tokens, channels}, 1.7f), w(t, {vocabulary, channels}, 0.035f), dx(t, {tokens, channels}, 0);
  Array dw(DType::f32, {vocabulary, channels}, 0), losses(DType::f64, {tokens}, 0), labels(DType::i32, {tokens}, 1);
  const Kernel<LossHead> entry = cpu_kernels().of<LossHead>();
  LossHead both{x.view, w.view, labels.view, losses.view, dx.view, dw.view, 1e-3};
  Storage workspace(DeviceKind::cpu, entry.workspace(both, thread_count()));
  workspace.touch();
  for (const char* what : {"loss", "dx", "dweight", "both"}) {
    LossHead a = both;
    if (!std::strcmp(what, "loss") || !std::strcmp(what, "dweight")) a.dx = {};
    if (!std::strcmp(what, "loss") || !std::strcmp(what, "dx")) a.dweight = {};
    const Speed v = speed_of(a.flops(), runs, [&] { entry.run(a, workspace.data()); });
    std::printf("%-8s %7.1f GFLOP/s %5.2f\n", what, v.flops * 1e-9, v.fraction);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace ravine

int main(int argc, char** argv) {
  auto number = [&](int i, int64_t otherwise) { return argc > i ? std::atoll(argv[i]) : otherwise; };
  const bool narrow = argc > 1 && !std::strcmp(argv[1], "bf16");
  ravine::run(narrow ? ravine::DType::bf16 : ravine::DType::f32, number(2, 1024), number(3, 768), number(4, 32000),
              static_cast<int>(number(5, 5)));
}
