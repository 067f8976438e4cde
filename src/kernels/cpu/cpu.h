// The entries of the cpu backend, each defined in the file of its kernel. kernels/kernels.h has their contracts.
#pragma once
#include "kernels/kernels.h"

namespace ravine {

template <class Args>
Kernel<Args> cpu_kernel();
Kernel<Matmul> cpu_matmul(Bf16Products products);
Kernel<GroupedMatmul> cpu_grouped_matmul(Bf16Products products);
Kernel<Nf4Matmul> cpu_nf4_matmul(Bf16Products products);
Kernel<LossHead> cpu_loss_head(Bf16Products products);
Kernel<AttentionForward> cpu_attention(Bf16Products products);
Kernel<AttentionBackward> cpu_attention_backward(Bf16Products products);

}  // namespace ravine
