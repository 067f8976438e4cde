// The bf16 dot product of AVX-512 (vdpbf16ps), which Highway 1.0.3 lacks: whether this machine has it and gains by it.
#pragma once
#include <cstdint>

namespace ravine {

bool has_bf16_dot();

// Runs `rounds` times 16 dot products of 32 bf16 pairs each on the calling thread (1024 FLOP per round); needs has_bf16_dot().
float bf16_dot_loop(int64_t rounds);

}  // namespace ravine
