// precision.compute and precision.bf16_products worked out: what a run, or a model that is run, computes with. Options decide,
// and where they say auto what a checkpoint was made with (run_record.h), else what kind of CPU this is.
#pragma once
#include <string>

#include "comm/group.h"
#include "config/config.h"
#include "kernels/backend.h"
#include "kernels/cpu_id.h"

namespace ravine {

struct Arithmetic {
  DType compute = DType::f32;
  Bf16Products products = Bf16Products::widen;  // dot with bf16 only, if it is not asked for by name
  std::string why;                              // of what auto chose; empty: nothing was left to choose
};
// A pure function of its arguments. A UserError for f64 on cpu, and for dot where `cpu` lacks the instruction.
Arithmetic choose_arithmetic(const PrecisionOptions& options, Backend backend, const CpuArithmetic& cpu);

// What the CPUs of all ranks are good at, the same on every rank. All ranks call it.
CpuArithmetic common_arithmetic(const Group& all);

}  // namespace ravine
