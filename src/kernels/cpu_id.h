// The kind of this CPU, and the fastest arithmetic for it. A choice that changes bits depends on this table and on
// options, never on a measured time. So two runs of one command are equal on a busy machine too.
#pragma once
#include <string>

#include "kernels/kernels.h"

namespace ravine {

struct CpuId {
  std::string vendor;         // including their extended parts
  int family = 0, model = 0;  // with their extended parts
  bool bf16_dot = false;      // cpu_has_bf16_dot()
};
CpuId cpu_id();  // of the CPU that runs this process

struct CpuArithmetic {
  bool bf16_dot = false;                        // the CPU has the instruction
  Bf16Products products = Bf16Products::widen;  // the faster way to multiply bf16
  bool bf16_faster = false;                     // bf16 is faster than f32
  std::string why;  // for messages: "AMD Zen 4 does twice the FLOPs in bf16 dot products that it does in f32"
};
// Returns the fastest arithmetic for a kind of CPU, from a table. A pure function of its argument. A CPU that is not in
// the table widens bf16, and f32 is assumed to be faster.
CpuArithmetic cpu_arithmetic(const CpuId& cpu);

}  // namespace ravine
