#pragma once
#include <string>

#include "kernels/kernels.h"

namespace ravine {

// The table that --backend names: "cpu" or "ref"; another backend is a UserError. `products` is for cpu.
Kernels backend_kernels(const std::string& backend, Bf16Products products = Bf16Products::widen);

}  // namespace ravine
