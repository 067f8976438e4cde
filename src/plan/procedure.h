// The procedure of Hugging Face's DeepSpeed guide ("How to choose which ZeRO stage and offloads to use for best performance"):
// nine steps, each slower than the one before and with less memory on the device, until one fits; then larger micro batches.
//
// What a rank keeps on its device and on its host is counted as DeepSpeed places it: with offload_optimizer the states and, of
// 16-bit arithmetic, the masters go to the host, with offload_param the weights between their uses; nvme is a disk. Where the
// CPU computes nothing is moved by that, and a rank needs the sum of both.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "plan/ways.h"

namespace ravine {

struct ProcedureStep {
  int number = 0;        // 1 to 9, as in the guide; 0: as configured, with micro batches of 1; 10: larger micro batches
  std::string what;      // "ZeRO 2"
  Config config;         // the run so
  bool possible = true;  // false: the step has nothing to change here, `what` says why
  int64_t device = 0, host = 0, disk = 0;  // bytes of the rank that needs most on its device
  bool fits = false;
};

struct Procedure {
  std::vector<ProcedureStep> steps;     // all that were planned, in order
  const ProcedureStep* choice() const;  // the last that fits; null: none
  std::optional<int> ranks_enough;      // where none fits: as many data ranks, a power of two, as would do with all of it
};

// `asked`: the batch is global_batch sequences, over `ranks` ranks; free_batch: it may grow with the micro batches. Errors: UserError where the mesh does not fit the model.
Procedure walk_procedure(Model& model, const Config& asked, Backend backend, int ranks, int64_t bytes_per_rank,
                         bool free_batch = false);

}  // namespace ravine
