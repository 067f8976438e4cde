#include "kernels/cpu_id.h"

#include <cpuid.h>

#include <cstring>

namespace ravine {

CpuId cpu_id() {
  CpuId out;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(0, &a, &b, &c, &d)) return out;
  char vendor[12];
  std::memcpy(vendor, &b, 4), std::memcpy(vendor + 4, &d, 4), std::memcpy(vendor + 8, &c, 4);
  out.vendor.assign(vendor, 12);
  if (__get_cpuid(1, &a, &b, &c, &d)) {
    const unsigned family = a >> 8 & 15, model = a >> 4 & 15;
    out.family = static_cast<int>(family == 15 ? family + (a >> 20 & 255) : family);
    out.model = static_cast<int>(family == 6 || family == 15 ? model + (a >> 16 & 15) * 16 : model);
  }
  out.bf16_dot = cpu_has_bf16_dot();
  return out;
}

CpuArithmetic cpu_arithmetic(const CpuId& cpu) {
  if (!cpu.bf16_dot) return {.why = "this kind of CPU has no bf16 dot product (AVX512_BF16)"};
  // Measured three times with `ravine bench machine` on family 25, model 17 (no log). Loops of the instruction had 235
  // GFLOP/s per core, loops of FMA 117.
  if (cpu.vendor == "AuthenticAMD" && cpu.family == 25)
    return {.bf16_dot = true,
            .products = Bf16Products::dot,
            .bf16_faster = true,
            .why = "AMD Zen 4 does twice the FLOPs in bf16 dot products that it does in f32"};
  // Not measured.
  if (cpu.vendor == "AuthenticAMD" && cpu.family == 26)
    return {.bf16_dot = true,
            .products = Bf16Products::dot,
            .bf16_faster = true,
            .why = "AMD Zen 5 is taken to be as Zen 4, which does twice the FLOPs in bf16 dot products"};
  // Measured: 115 and 357 GFLOP/s on two cores of model 207 without AMX (bench/machine.log). Its best product has 309
  // in f32 and 245 in widened bf16. Other models are assumed to be equal. No kernel uses AMX, which some models have
  // for bf16.
  if (cpu.vendor == "GenuineIntel" && cpu.family == 6)
    return {.bf16_dot = true,
            .why = "Intel's bf16 dot product does less than half of the FLOPs of f32 (measured on model 207)"};
  return {.bf16_dot = true, .why = "nothing is known of the bf16 dot product of this kind of CPU"};
}

}  // namespace ravine
