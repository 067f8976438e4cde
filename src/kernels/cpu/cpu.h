// The entries of the cpu backend that carry the work of a step; table.cpp puts them in the table. Contracts: kernels/kernels.h.
#pragma once
#include "kernels/kernels.h"

namespace ravine {

Kernel<Matmul> matmul_entry(Bf16Products products);    // matmul.cpp
Kernel<AttentionForward> attention_entry();            // attention_forward.cpp
Kernel<AttentionBackward> attention_backward_entry();  // attention_backward.cpp
Kernel<LossHead> loss_head_entry();                    // loss_head.cpp

}  // namespace ravine
