// What kind of CPU this is, and which arithmetic such CPUs are known to be good at. A choice that changes bits follows from
// this table and from options, never from a clock: two runs of one command agree however busy the machine is.
#pragma once
#include <string>

#include "kernels/kernels.h"

namespace ravine {

struct CpuId {
  std::string vendor;         // as cpuid spells it: "AuthenticAMD", "GenuineIntel"; empty: unknown
  int family = 0, model = 0;  // with their extended parts
  bool bf16_dot = false;      // cpu_has_bf16_dot()
};
CpuId cpu_id();  // of the CPU that this process runs on

struct CpuArithmetic {
  bool bf16_dot = false;                        // the instruction is there
  Bf16Products products = Bf16Products::widen;  // the faster way to multiply bf16
  bool bf16_faster = false;                     // than f32
  std::string why;  // for people: "AMD Zen 4 does twice the FLOPs in bf16 dot products that it does in f32"
};
// A pure function of its argument. A CPU that is not in the table widens, and is taken to be faster in f32.
CpuArithmetic cpu_arithmetic(const CpuId& cpu);

}  // namespace ravine
