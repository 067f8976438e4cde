// What this machine can do, measured.
#pragma once
#include <string>

namespace ravine {

// Peaks of this machine for all threads, per second. Each is measured until its best two runs agree, for a bounded time (about
// 1 s in all, 3 s at most). For figures that people read: no choice that changes bits hangs on them (kernels/cpu_id.h).
struct MachinePeaks {
  double f32_flops = 0, bf16_flops = 0;      // the larger of a loop of the instruction and the best product
  double f32_product = 0, bf16_product = 0;  // FLOP/s that the best product reaches, operands as they lie in training
  double bf16_dot = 0;                       // FLOP/s of a loop of bf16 dot products; 0: the machine has none
  double read_bytes = 0, copy_bytes = 0;
  double spread = 0;  // how far the second best run of a figure was behind its best, as a share; of all figures the largest
  double ran = 0;     // core_share() while it was measured, the least
  bool sure = false;  // nothing else ran, and every figure was reached twice; else the machine may do more
  std::string doubt() const;  // why they are not sure, in a sentence
};
MachinePeaks measure_peaks(bool memory = true);  // false: no rates of memory, and none of the 512 MB that they take
double measure_read_bandwidth();                 // bytes per second, all threads, measured now (about 0.4 s)

inline constexpr double kPeaksAgree = 0.03;  // runs that are no further apart agree
inline constexpr double kQuietShare = 0.95;  // a core_share() from here on: nothing else runs
// The share of the next 10 ms in which each thread of this process has a core: 1 on a machine where nothing else runs.
double core_share();

}  // namespace ravine
