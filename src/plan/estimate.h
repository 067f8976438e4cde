// How long a step of a layout takes, from what was measured on this machine: rates of products and memory, and of messages
// between ranks. Every kernel call of a micro batch is counted on the meta device, block by block, and the sum divided by the
// share of such rates that steps reach here; the schedule, the sums over ranks and the update are added to that.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "parallel/schedule.h"
#include "plan/messages.h"
#include "step/layout.h"
#include "step/step.h"

namespace ravine {

// Of one rank.
struct Rates {
  double flops_f32 = 0, flops_bf16 = 0;  // products
  double step_share = 0.75;              // of what products and memory allow, that the kernels of a step reach (step_share.h)
  double bytes = 0;                      // memory, read and written
  int local = 1;                         // ranks that share a machine like this one
  bool measured = false;
  MessageRates messages;
};

// What the cache holds of this machine, divided among `local` ranks that share it; where it holds nothing a usual machine is
// assumed.
Rates known_rates(int local);

// Seconds of every block of a model, of one micro batch on one rank.
struct BlockCosts {
  std::vector<double> forward;
  std::vector<double> first,
      later;  // backward with what is recomputed: of the first micro batch of a sum, and of those that add to it
};
BlockCosts block_costs(Model& model, const Config& config, const Types& types, const Kernels& kernels, int64_t columns,
                       const Rates& rates);

// Layers of each part of the pipeline so that the slowest part is as fast as can be, embedding and head counted: by FLOPs and
// bytes of the model, at the rates of a usual machine, so that a run, its plan and its resume on any machine agree.
std::vector<int64_t> layers_by_cost(Model& model, const Config& config, const Types& types, const Kernels& kernels,
                                    int64_t columns);

struct StepEstimate {
  double seconds = 0;
  // What it is made of, on the critical rank.
  double compute = 0;                         // forward and backward
  double tensor = 0, pipeline = 0, data = 0;  // messages and the sums that they bring
  double leaves = 0;                          // sums over the leaves of a rank
  double update = 0;                          // norm and optimizer
  double bubble = 0;                          // share of the step in which stages have nothing to do
  PipelineTimes times;                        // of the schedule
};
StepEstimate estimate_step(Model& model, const Config& config, const RunLayout& layout, const Types& types, int64_t columns,
                           const Rates& rates, const BlockCosts& costs);

}  // namespace ravine
