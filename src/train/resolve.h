// From what was asked for to what a run does.
#pragma once
#include <functional>
#include <optional>

#include "kernels/cpu_id.h"
#include "model/adapters.h"
#include "model/model.h"
#include "runs/run_record.h"
#include "runs/run_spec.h"

namespace ravine {

// All that a run depends on beside its options.
struct RunFacts {
  Backend backend = Backend::cpu;
  int ranks = 1;
  CpuArithmetic cpu;  // what the CPUs of all ranks are good at
  Model* model = nullptr;
  std::optional<LoraSettings> lora;          // of the adapter that is trained
  std::optional<DType> weights_type;         // of all weights of model.path
  const RunRecord* was = nullptr;            // of the checkpoint that it goes on from
  std::optional<int64_t> columns;            // of a micro batch; nothing: the data are not open yet
  int64_t samples = 0;                       // sequences of one pass over the data, likewise
  std::function<int64_t(int64_t)> of_ranks;  // the largest of the ranks' numbers; null: there is one rank's
};

// A pure function: equal arguments give an equal spec, on every rank. `asked`: values, with the place of each that was given
// (Config::sources); it has passed validate(). Before the data are open the spec lacks train.recompute=auto, the layers of
// stages by cost, and the steps that train.epochs and its warm-up ratio come to. Errors: UserError where ranks, model and options do not go together, or no recomputation keeps within
// train.memory_mb.
RunSpec resolve(const Config& asked, const RunFacts& facts);

// Types and kernels alone, for a search over layouts.
RunSpec resolve_types(const Config& asked, const RunFacts& facts);

}  // namespace ravine
