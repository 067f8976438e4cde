#include "kernels/ref/ref.h"

namespace ravine {

Kernels ref_kernels() {
  Kernels k;
  k.backend = "ref";
  k.instructions = cpu_instruction_set();
  k.each([]<class Args>(Kernel<Args>& entry) { entry = ref::kernel_of<Args>(); });
  return k;
}

}  // namespace ravine
