// Measures the peak speed of this machine.
#pragma once
#include <string>

namespace ravine {

// The measured peak speeds of this machine with all threads: FLOP/s and bytes/s. Each is measured until its best two
// runs agree, for a bounded time (about 1 s in all, 3 s at most). The figures are for reports: no choice that changes
// bits depends on them (kernels/cpu_id.h).
struct MachinePeaks {
  double f32_flops = 0, bf16_flops = 0;      // the larger of a loop of the instruction and of the best product
  double f32_product = 0, bf16_product = 0;  // FLOP/s of the best product, with operands in the layout of training
  // FLOP/s of a loop of bf16 dot products; 0: the CPU does not have this instruction.
  double bf16_dot = 0;
  double read_bytes = 0, copy_bytes = 0;
  // How well the measurements repeat: the relative distance between the best and the second best run of a figure. The
  // largest of all figures.
  double spread = 0;
  double ran = 0;  // smallest core_share() during the measurement
  // True if no other program ran and every figure was reached twice; else the machine may be faster.
  bool sure = false;
  std::string doubt() const;  // the reason why figures are not sure, as a sentence
};
// Measures the peaks of this machine. With memory = false, memory rates are not measured, and the 512 MB for them are
// not allocated.
MachinePeaks measure_peaks(bool memory = true);
double measure_read_bandwidth();  // bytes per second, all threads, measured now (about 0.4 s)

inline constexpr double kPeaksAgree = 0.03;  // two runs with at most this relative distance agree
inline constexpr double kQuietShare = 0.95;  // no other program runs if core_share() is at least this
// Measures for 10 ms how much of the time each thread of this process has a core. Returns this share, 0 to 1; 1 if no
// other program runs.
double core_share();

}  // namespace ravine
