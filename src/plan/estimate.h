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

// The speed of one rank that an estimate of a step uses: FLOP/s of products, bytes/s of memory, and messages.
struct Rates {
  double flops_f32 = 0, flops_bf16 = 0;  // FLOP/s of products
  double step_share = 0.75;              // share of these rates that a step's kernels reach (step_share.h)
  double bytes = 0;                      // bytes/s of memory, read and written
  int local = 1;                         // ranks on one machine
  bool measured = false;                 // false: rates of a usual machine
  MessageRates messages;
};

// Returns the rates of one rank from the cached peaks of this machine, divided among `local` ranks on it. Rates of a
// usual machine if the cache has none.
Rates known_rates(int local);

// The estimated seconds of each block of a model, for one micro batch on one rank. The result of block_costs.
struct BlockCosts {
  std::vector<double> forward;
  // The backward pass of each block, with its recomputation. first: in the first micro batch of a sum of gradients.
  // later: in the other ones, which add to the sum.
  std::vector<double> first, later;
};
BlockCosts block_costs(Model& model, const Config& config, const Types& types, const Kernels& kernels, int64_t columns,
                       const Rates& rates);

// Splits the layers of a model over pipeline parts, so that the slowest part (with embedding or head) is as fast as
// possible. Returns the number of layers of each part. Uses FLOPs and bytes of the model at the rates of a usual
// machine, so that a run, its plan and its resume agree on any machine.
std::vector<int64_t> layers_by_cost(Model& model, const Config& config, const Types& types, const Kernels& kernels,
                                    int64_t columns);

// The estimated time of a training step in seconds, and its parts. The result of estimate_step.
struct StepEstimate {
  double seconds = 0;
  // The parts of `seconds`, on the critical rank.
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
