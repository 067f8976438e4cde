#pragma once
#include "config/choice.h"
#include "kernels/kernels.h"

namespace ravine {

// The backend: the fast kernels for this CPU, or the reference (plain loops, sums in f64).
enum class Backend : uint8_t { cpu, ref };
constexpr auto names_of(Backend) { return std::to_array<ValueName<Backend>>({{Backend::cpu, "cpu"}, {Backend::ref, "ref"}}); }

// `products` applies to cpu only
Kernels backend_kernels(Backend backend, Bf16Products products = Bf16Products::widen);

// A UserError if the backend does not compute in `type`: only ref computes in f64.
void check_computes(Backend backend, DType type);

}  // namespace ravine
