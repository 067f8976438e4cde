// The ways to run one training: a value for each knob that trades memory for time and leaves the model alone. The one enumerator:
// decide.h climbs from the fastest until one fits, variants.h compares with a run as configured, `ravine plan --layouts` lists.
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

struct Way {
  Mesh mesh;
  int64_t zero = 0;
  Recompute recompute = Recompute::cheap;
  int64_t micro_batch = 1, length = 1;  // sequences, and tokens of each
  std::optional<DType> compute;         // none: auto
  std::array<size_t, 6> notches{};      // how far each knob is turned, in the order of Knobs; 0: mildest

  Config config(const Config& base) const;                  // `base` run this way
  std::vector<std::string> changes(const Way& from) const;  // settings of the knobs that differ: "train.recompute=full"
  bool at_most(const Way& other) const;                     // no knob is turned further
  // The same with another value of one knob: with(&Way::zero, 2).
  template <class T>
  Way with(T Way::*knob, std::type_identity_t<T> value) const {
    Way out = *this;
    out.*knob = value;
    return out;
  }
};

// The values of each knob, mildest first.
struct Knobs {
  std::vector<Mesh> meshes;
  std::vector<int64_t> zeros;
  std::vector<Recompute> recomputes;
  std::vector<std::optional<DType>> computes;
  std::vector<int64_t> micro_batches, lengths;

  explicit Knobs(const Way& only);  // one value each
  // Every combination, the first knob turning slowest; ZeRO stages only where there are data ranks.
  std::vector<Way> ways() const;
  // The same by the notches of all knobs together.
  std::vector<Way> mildest_first() const;
};

// What a run of this config computes with, on a CPU like this one.
struct PlannedTypes {
  Types types;
  Kernels kernels;
};
PlannedTypes planned_types(const Config& config, Backend backend);

// Bytes of a step of this rank, planned on the meta device exactly as the run itself, without the program; what it sends.
// `work`, if not null, counts.
struct PlannedStep {
  int64_t bytes = 0;
  Communication sent;
};
PlannedStep planned_step(Model& model, const Config& config, const Types& types, const Kernels& kernels, const StepShape& shape,
                         Ranks& ranks, WorkCount* work = nullptr);

// The same of the ranks of the first, second and last stage: bytes of the one that needs most, and what the one that sends most
// sends. Here the program counts, as it was at the first call.
PlannedStep plan_ranks(Model& model, const Config& config, const RunLayout& layout, const Types& types, const Kernels& kernels,
                       int64_t columns);

}  // namespace ravine
