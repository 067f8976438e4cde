// Loops over many numbers with the vector units of the machine, with the same bits on each machine. Sums have eight
// lanes: element i is added to lane i modulo 8, and no operations are fused.
#pragma once

// An attribute of functions: the function is compiled for three instruction sets, and calls use the best one of the
// machine. Empty for other compilers and with sanitizers.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define RAVINE_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define RAVINE_CLONES
#endif

namespace ravine {

inline constexpr int kLanes = 8;
using Lanes = double __attribute__((vector_size(kLanes * sizeof(double))));

inline double lane_sum(const Lanes& lanes) {
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

}  // namespace ravine
