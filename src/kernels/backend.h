#pragma once
#include <string>

#include "kernels/kernels.h"

namespace ravine {

// The table that --backend names: "cpu" or "ref"; another backend is a UserError.
Kernels backend_kernels(const std::string& backend);

}  // namespace ravine
