#pragma once
#include "config/choice.h"
#include "kernels/kernels.h"

namespace ravine {

// The backend that computes. cpu: fast kernels for this CPU; ref: the reference, with plain loops and sums in f64.
enum class Backend : uint8_t { cpu, ref };
constexpr auto names_of(Backend) { return std::to_array<ValueName<Backend>>({{Backend::cpu, "cpu"}, {Backend::ref, "ref"}}); }

// Returns the kernels of a backend. `products`: the way to multiply bf16; used by backend cpu only.
Kernels backend_kernels(Backend backend, Bf16Products products = Bf16Products::widen);

// Throws a UserError if the backend cannot compute in `type`: only ref computes in f64.
void check_computes(Backend backend, DType type);

}  // namespace ravine
