// Variants of a run that need more or less memory. Each variant is planned on meta like the run itself. Its time is
// compared with the time of the run as configured (plan/work.h).
#pragma once
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "plan/knobs.h"
#include "plan/machine.h"

namespace ravine {

// A variant of a run that needs more or less memory: the changed settings, its memory, and its time compared with the
// run as configured.
struct Variant {
  std::vector<std::string> changes;  // changed settings, "train.recompute=full"; empty: as configured
  int64_t bytes = 0;                 // total, as RunMemory::total
  double time = 1;                   // time per token / time per token as configured
  bool same_work = true;             // false: shorter sequences, another training
  std::string text() const;          // "train.recompute=full train.micro_batch=2 (3.1 GiB, 1.31 x the time)"
};

// Plans variants of a run that need more or less memory, on the meta device.
class Variants {
 public:
  // `engine`: the planned run as configured. shorten: true if variants may have a shorter sequence length (false with
  // fixed batch files).
  Variants(const Config& config, Backend backend, const Types& types, StepEngine& engine, bool shorten);

  // Returns at most `count` variants of the run that need at most `bytes` of memory: the fastest first, variants with
  // shorter sequences last. A variant is left out if a variant with smaller changes of the same options fits.
  std::vector<Variant> that_fit(int64_t bytes, size_t count);
  // Returns the variant of the run that needs least memory.
  Variant smallest();
  // Returns the variants that differ from the run in one setting: other recomputation, micro batches of half and double
  // size, the other arithmetic.
  std::vector<Variant> neighbours();

 private:
  Variant plan(const Trial& trial);

  Config config_;
  Backend backend_;
  Model& model_;
  StepShape shape_;
  Ranks ranks_;
  int64_t base_;
  MachinePeaks peaks_;
  Trial configured_;
  Knobs knobs_;         // values from the configured one to those that need less memory
  double seconds_ = 0;  // per token, as configured
};

// Returns the bytes of memory that a run may use in this process: free memory plus the memory that the process already
// holds. If address space is limited, the stacks of threads are subtracted.
int64_t memory_for_run();

}  // namespace ravine
