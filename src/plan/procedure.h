// The procedure of Hugging Face's DeepSpeed guide ("How to choose which ZeRO stage and offloads to use for best
// performance"). Each of its nine steps is slower than the previous one, and needs less device memory. The first step
// that fits is used, then with larger micro batches.
//
// Device and host memory of a rank are counted as DeepSpeed places them. With offload_optimizer, optimizer states (and
// masters of 16-bit arithmetic) are on the host. With offload_param, weights are on the host between their uses. nvme
// is a disk. If the CPU computes, offloading moves nothing: a rank needs the sum of both.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "plan/knobs.h"

namespace ravine {

// One step of the procedure of the DeepSpeed guide: its config, the memory that it needs, and if it fits.
struct ProcedureStep {
  int number = 0;                          // 1 to 9, as in the guide; 10: larger micro batches
  std::string what;                        // "ZeRO 2"
  Config config;                           // the config of the run with this step
  bool possible = true;                    // false: the step changes nothing here; `what` has the reason
  int64_t device = 0, host = 0, disk = 0;  // bytes of the rank that needs most device memory
  bool fits = false;
};

// The result of walk_procedure: the steps of the DeepSpeed guide's procedure that were planned, and the chosen step.
struct Procedure {
  std::vector<ProcedureStep> steps;     // all planned steps, in order
  const ProcedureStep* choice() const;  // the last step that fits; null: none
  // Set if no step fits: the number of ranks, a power of two times `ranks`, with which the last step fits.
  std::optional<int> ranks_enough;
};

// Plans the steps of the DeepSpeed guide's procedure in their order until one fits, then larger micro batches. The
// batch is train.global_batch sequences over `ranks` ranks. free_batch: the batch may grow with the micro batches.
// `bytes_per_rank`: the memory limit. A UserError if the mesh does not fit the model.
Procedure walk_procedure(Model& model, const Config& requested, Backend backend, int ranks, int64_t bytes_per_rank,
                         bool free_batch = false);

}  // namespace ravine
