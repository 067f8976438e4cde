// The ways to run a training: a value for each option that trades memory for time and does not change the model.
// decide.h searches from the fastest way until one fits, variants.h compares ways with the configured run, `ravine plan
// --layouts` lists them.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "comm/mesh.h"
#include "config/config.h"
#include "kernels/backend.h"
#include "plan/work.h"
#include "step/layout.h"
#include "step/step.h"

namespace ravine {

// A way to run a training: one value for each option that trades memory for time (mesh, ZeRO, recomputation, batch,
// type).
struct Trial {
  Mesh mesh;
  int64_t zero = 0;
  Recompute recompute = Recompute::cheap;
  int64_t micro_batch = 1, length = 1;  // sequences of a micro batch, and tokens of a sequence
  std::optional<DType> compute;         // empty: auto
  std::array<size_t, 6> notches{};      // index of each value, in the order of Knobs::trials(); 0: mildest

  Config config(const Config& base) const;  // `base` with the values of this way
  // settings that differ from `from`: "train.recompute=full"
  std::vector<std::string> changes(const Trial& from) const;
  bool at_most(const Trial& other) const;  // no value is further from the mildest
  // Returns a copy of this Trial in which one option has another value: with(&Trial::zero, 2).
  template <class T>
  Trial with(T Trial::*knob, std::type_identity_t<T> value) const {
    Trial out = *this;
    out.*knob = value;
    return out;
  }
};

// The values that a search tries for each option of a Trial, the mildest (least change of the run) first.
struct Knobs {
  std::vector<Mesh> meshes;
  std::vector<int64_t> zeros;
  std::vector<Recompute> recomputes;
  std::vector<std::optional<DType>> computes;
  std::vector<int64_t> micro_batches, lengths;

  explicit Knobs(const Trial& only);  // one value for each option
  // Returns the Trials of all combinations of the values; the first option varies slowest. ZeRO stages are included
  // only if there are data ranks.
  std::vector<Trial> trials() const;
  // Returns the Trials of all combinations of the values, ordered by the sum of their notches (smallest change first).
  std::vector<Trial> mildest_first() const;
};

// The tensor types and the kernels of a run with this config, on this CPU. The result of planned_types.
struct PlannedTypes {
  Types types;
  Kernels kernels;
};
PlannedTypes planned_types(const Config& config, Backend backend);

// The memory and the traffic of a step of this rank, planned on the meta device like the run itself. The result of
// planned_step and plan_ranks. planned_step: bytes without the memory of the process itself; `work`, if not null,
// counts the kernel calls.
struct PlannedStep {
  int64_t bytes = 0;
  Communication sent;
};
PlannedStep planned_step(Model& model, const Config& config, const Types& types, const Kernels& kernels, const StepShape& shape,
                         Ranks& ranks, WorkCount* work = nullptr);

// Plans a training step on a rank of the first, the second and the last pipeline stage. Returns the bytes of the rank
// that needs most, and the traffic of the rank that sends most. The bytes include the memory of the process itself, as
// it was at the first call. columns: tokens of a sequence.
PlannedStep plan_ranks(Model& model, const Config& config, const RunLayout& layout, const Types& types, const Kernels& kernels,
                       int64_t columns);

}  // namespace ravine
