#include "kernels/backend.h"

#include "base/error.h"

namespace ravine {

Kernels backend_kernels(Backend backend, Bf16Products products) {
  switch (backend) {
    case Backend::cpu:
      return cpu_kernels(products);
    case Backend::ref:
      return ref_kernels();
  }
  fail("no such backend");
}

void check_computes(Backend backend, DType type) {
  if (type == DType::f64 && backend != Backend::ref)
    throw UserError("precision.compute=f64", "precision.compute", "f64 is computed by the ref backend only",
                    "add --backend ref");
}

}  // namespace ravine
