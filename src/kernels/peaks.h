// What this machine can do, measured.
#pragma once
namespace ravine {

// Peaks of this machine for all threads, per second, measured now (about 1 s in all). For figures that people read: no choice
// that changes bits hangs on them (kernels/cpu_id.h).
struct MachinePeaks {
  double f32_flops = 0, bf16_flops = 0;      // the larger of a loop of the instruction and the best product
  double f32_product = 0, bf16_product = 0;  // FLOP/s that the best product reaches, operands as they lie in training
  double bf16_dot = 0;                       // FLOP/s of a loop of bf16 dot products; 0: the machine has none
  double read_bytes = 0, copy_bytes = 0;
};
MachinePeaks measure_peaks(bool memory = true);  // false: no rates of memory, and none of the 512 MB that they take
double measure_read_bandwidth();                 // bytes per second, all threads, measured now (about 0.4 s)

}  // namespace ravine
