// Resolves precision.compute and precision.bf16_products: the arithmetic of a training run or of a loaded model. Set
// options decide. Where an option is auto, the value of the checkpoint decides (run_record.h), else the kind of CPU.
#pragma once
#include <string>

#include "comm/group.h"
#include "config/config.h"
#include "kernels/backend.h"
#include "kernels/cpu_id.h"

namespace ravine {

struct Arithmetic {
  DType compute = DType::f32;
  Bf16Products products = Bf16Products::widen;  // Bf16Products::dot requires compute bf16, or an option that sets dot
  std::string why;                              // the reason for the values that auto chose; empty: auto chose nothing
};
// Chooses compute type and form of bf16 products of a run from its precision options, for a CPU with these properties.
// A pure function of its arguments. UserErrors: compute f64 on a backend that cannot compute in f64; Bf16Products::dot
// on a `cpu` without the bf16 dot instruction.
Arithmetic choose_arithmetic(const PrecisionOptions& options, Backend backend, const CpuArithmetic& cpu);

// Returns the properties of bf16 arithmetic that the CPUs of all ranks have in common, the same on every rank. All
// ranks call it together.
CpuArithmetic common_arithmetic(const Group& all);

}  // namespace ravine
