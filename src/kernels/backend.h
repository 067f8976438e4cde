#pragma once
#include "config/choice.h"
#include "kernels/kernels.h"

namespace ravine {

// Who computes: the fast kernels of this CPU, or plain loops with sums in f64, the judge.
enum class Backend : uint8_t { cpu, ref };
constexpr auto names_of(Backend) { return std::to_array<ValueName<Backend>>({{Backend::cpu, "cpu"}, {Backend::ref, "ref"}}); }

Kernels backend_kernels(Backend backend, Bf16Products products = Bf16Products::widen);  // `products` is for cpu

// A UserError if the backend does not compute in `type`: f64 is ref's.
void check_computes(Backend backend, DType type);

}  // namespace ravine
