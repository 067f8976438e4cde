// Variants of a run that need more or less memory. Each variant is planned on meta like the run itself. Its time is
// compared with the time of the run as configured (plan/work.h).
#pragma once
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "plan/machine.h"
#include "plan/ways.h"

namespace ravine {

// A variant of a run.
struct Variant {
  std::vector<std::string> changes;  // changed settings, "train.recompute=full"; empty: as configured
  int64_t bytes = 0;                 // total, as RunMemory::total
  double time = 1;                   // time per token / time per token as configured
  bool same_work = true;             // false: shorter sequences, another training
  std::string text() const;          // "train.recompute=full train.micro_batch=2 (3.1 GiB, 1.31 x the time)"
};

// Plans variants of a run.
class Variants {
 public:
  // `engine` is the planned run. shorten: true if the sequence length may change (not with fixed batch files).
  Variants(const Config& config, Backend backend, const Types& types, StepEngine& engine, bool shorten);

  // Returns at most `count` variants that need at most `bytes`: the fastest first, shorter sequences last. A variant is
  // left out if a variant with smaller changes of the same options fits.
  std::vector<Variant> that_fit(int64_t bytes, size_t count);
  // Returns the variant that needs least memory.
  Variant smallest();
  // Returns variants with one change each: other recomputation, micro batches of half and double size, the other
  // arithmetic.
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
  Knobs knobs_;         // values from the configured one to those that need less memory
  double seconds_ = 0;  // per token, as configured
};

// Returns the bytes that a run may use in this process: free memory and the memory it already holds, less the stacks of
// threads if address space is limited.
int64_t memory_for_run();

}  // namespace ravine
