// Other ways to run a training that need another amount of memory: each is planned on meta exactly as the run itself, and its
// time is compared with that of the run as configured (plan/work.h).
#pragma once
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "plan/machine.h"
#include "plan/ways.h"

namespace ravine {

struct Variant {
  std::vector<std::string> changes;  // settings, "train.recompute=full"; empty: as configured
  int64_t bytes = 0;                 // in all, as RunMemory::total
  double time = 1;                   // of a token, in times that of the configured run
  bool same_work = true;             // false: shorter sequences, another training
  std::string text() const;          // "train.recompute=full train.micro_batch=2 (3.1 GiB, 1.31 x the time)"
};

class Variants {
 public:
  // `engine` is the planned run. shorten: whether the length of the sequences is ours to choose (not with fixed batch files).
  Variants(const Config& config, Backend backend, const Types& types, StepEngine& engine, bool shorten);

  // The cheapest ways, fastest first, shorter sequences last, at most `count`, to need no more than `bytes`. None of them does
  // more than it must: a milder one of the same kind would not fit.
  std::vector<Variant> that_fit(int64_t bytes, size_t count);
  // The one that needs least of all.
  Variant smallest();
  // One change at a time, both ways: other recomputation, micro batches of half and double size, the other arithmetic.
  std::vector<Variant> neighbours();

 private:
  Variant plan(const Way& way);

  Config config_;
  Backend backend_;
  Model& model_;
  StepShape shape_;
  Ranks ranks_;
  int64_t base_;
  MachinePeaks peaks_;
  Way configured_;
  Knobs knobs_;         // from what is configured to what needs less
  double seconds_ = 0;  // per token, as configured
};

// Bytes that a run may plan with in this process: what is free, what it holds already, and less for stacks where address space
// is limited.
int64_t memory_for_run();

}  // namespace ravine
