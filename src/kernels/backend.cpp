#include "kernels/backend.h"

#include "base/error.h"

namespace ravine {

Kernels backend_kernels(const std::string& backend, Bf16Products products) {
  if (backend == "cpu") return cpu_kernels(products);
  if (backend == "ref") return ref_kernels();
  throw UserError(fmt::format("backend '{}'", backend), "--backend", "this build has cpu and ref", "choose one of them");
}

}  // namespace ravine
