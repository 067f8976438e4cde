// Estimates the time of a step from the rates of this machine: products, memory, and messages between ranks. Every
// kernel call of a micro batch is counted on the meta device, block by block. The sum is divided by the share of the
// rates that steps reach here. The schedule, the reductions over ranks and the update are added.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "parallel/schedule.h"
#include "plan/messages.h"
#include "step/layout.h"
#include "step/step.h"

namespace ravine {

// The rates of one rank, per second.
struct Rates {
  double flops_f32 = 0, flops_bf16 = 0;  // FLOP/s of products
  double step_share = 0.75;              // share of these rates that a step's kernels reach (step_share.h)
  double bytes = 0;                      // bytes/s of memory, read and written
  int local = 1;                         // ranks on one machine
  bool measured = false;                 // false: rates of a usual machine
  MessageRates messages;
};

// Returns the cached rates of this machine, divided among `local` ranks on it; rates of a usual machine if the cache
// has none.
Rates known_rates(int local);

// Seconds of each block of a model, for one micro batch on one rank.
struct BlockCosts {
  std::vector<double> forward;
  // backward with recomputation: first micro batch of a sum, and later ones, which add to it
  std::vector<double> first, later;
};
BlockCosts block_costs(Model& model, const Config& config, const Types& types, const Kernels& kernels, int64_t columns,
                       const Rates& rates);

// Returns the number of layers of each pipeline part, so that the slowest part is as fast as possible, with embedding
// and head. Uses FLOPs and bytes of the model at the rates of a usual machine, so that a run, its plan and its resume
// agree on any machine.
std::vector<int64_t> layers_by_cost(Model& model, const Config& config, const Types& types, const Kernels& kernels,
                                    int64_t columns);

// The estimated time of a step, in seconds.
struct StepEstimate {
  double seconds = 0;
  // The parts of the time, on the critical rank.
  double compute = 0;                         // forward and backward
  double tensor = 0, pipeline = 0, data = 0;  // messages, and the sums after them
  double leaves = 0;                          // sums over the leaves of a rank
  double update = 0;                          // norm and optimizer
  double bubble = 0;                          // part of the step in which stages are idle
  PipelineTimes times;                        // of the schedule
};
StepEstimate estimate_step(Model& model, const Config& config, const RunLayout& layout, const Types& types, int64_t columns,
                           const Rates& rates, const BlockCosts& costs);

}  // namespace ravine
