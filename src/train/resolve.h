// Resolves the options of a run: from a Config to a RunSpec.
#pragma once
#include <functional>
#include <optional>

#include "kernels/cpu_id.h"
#include "model/adapters.h"
#include "model/model.h"
#include "runs/run_record.h"
#include "runs/run_spec.h"

namespace ravine {

// The arguments of resolve() besides the options: backend, ranks, CPU, model, the checkpoint to resume from, and the
// sizes of the data.
struct RunFacts {
  Backend backend = Backend::cpu;
  int ranks = 1;
  CpuArithmetic cpu;  // the arithmetic that the CPUs of all ranks support
  Model* model = nullptr;
  std::optional<LoraSettings> lora;          // of the trained adapter
  std::optional<DType> weights_type;         // of all weights of model.path
  const RunRecord* was = nullptr;            // of the checkpoint to resume from
  std::optional<int64_t> columns;            // of a micro batch; empty: the data are not open yet
  int64_t samples = 0;                       // sequences of an epoch; 0: the data are not open yet
  std::function<int64_t(int64_t)> of_ranks;  // returns the largest number of all ranks; null: one rank
};

// Resolves the options of a run: replaces auto, and computes layout, types and kernels. A pure function: equal
// arguments give an equal spec on every rank. `requested`: validated options, with the place of each set option
// (Config::sources). Before the data are open, three values are missing: train.recompute=auto, the layers of stages by
// cost, and the steps of train.epochs and of the warmup ratio. Errors: a UserError if ranks, model and options do not
// fit together, or if no recomputation fits train.memory_mb.
RunSpec resolve(const Config& requested, const RunFacts& facts);

// Returns a RunSpec that has only types and kernels set, for a search over layouts.
RunSpec resolve_types(const Config& requested, const RunFacts& facts);

}  // namespace ravine
