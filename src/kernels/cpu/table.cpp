#include "kernels/cpu/cpu.h"

namespace ravine {

Kernels cpu_kernels(Bf16Products products) {
  Kernels k;
  k.backend = "cpu";
  k.instructions = products == Bf16Products::dot ? "avx512 with bf16 dot products" : cpu_instruction_set();
  k.each([&]<class Args>(Kernel<Args>& entry) {
    if constexpr (std::is_same_v<Args, Matmul>)
      entry = cpu_matmul(products);
    else if constexpr (std::is_same_v<Args, GroupedMatmul>)
      entry = cpu_grouped_matmul(products);
    else if constexpr (std::is_same_v<Args, Nf4Matmul>)
      entry = cpu_nf4_matmul(products);
    else if constexpr (std::is_same_v<Args, LossHead>)
      entry = cpu_loss_head(products);
    else if constexpr (std::is_same_v<Args, AttentionForward>)
      entry = cpu_attention(products);
    else if constexpr (std::is_same_v<Args, AttentionBackward>)
      entry = cpu_attention_backward(products);
    else
      entry = cpu_kernel<Args>();
  });
  return k;
}

}  // namespace ravine
