// Substitution: runs Ravine's kernels on the recorded inputs of the calls of two dumps. The difference to the recorded
// outputs shows which errors a call generates and which it inherits, for each dump alone.
//
// An observer of a run that repeats the steps of the dumps. Before a call runs, its kernel runs once for each dump in
// separate memory, on the inputs of the dump. An input must be stored in the dump, or have the bits of the run's input.
// So a dump of the run itself needs no tensors. All inputs must be known, in their shapes. Floats of another type are
// rounded to Ravine's, and the rounding is part of the bound. A call with inputs that another program's trace lacks
// (rstd, lse, positions) is not judged. Numbers of the call (eps, scale, a dropout seed, learning rates) are taken from
// the repeated run. Integers are indices into memory: a call with other ids or choices than the run's is not judged,
// nor a call that chooses differently. Outputs that the kernel leaves unwritten count as equal.
//
// The bound is twice the kernel's own bound (kernels/error_bounds.h), because both sides round, and has no inherited
// part. So a small fault is found even after a large difference.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "engine/observer.h"
#include "probe/comparison.h"
#include "probe/stored_dump.h"
#include "train/step_observer.h"

namespace ravine {

// The results of a repeated run for the comparison of two dumps. The keys of all maps are key_on() of a tensor's
// record.
struct Substituted {
  std::map<std::string, GeneratedError> a, b;  // by output: the error of dump A and B against Ravine's kernel
  std::map<std::string, double> spread;        // by output or input: its relative change by perturbation (spread.h)
  static std::string key_on(int rank, const DumpRecord& r) { return fmt::format("{}/{}", rank, r.key()); }
  // Return the results as JSON, and add the results in the JSON of another rank. Used for messages between ranks.
  Json json() const;
  void add(const Json& of_a_rank);
};

// An observer of a run that repeats the steps of two dumps. The observer runs each call's kernel on the inputs in each
// dump, and compares the results with the outputs in the dump.
class Substitution : public StepObserver, public Observer {
 public:
  // Both dumps must have the same layout (same_layout in whole_run.h). Dumps and `found` must outlive this object.
  // found: receives the results.
  Substitution(const Dump& a, const Dump& b, Substituted& found);

  void begin(OpenedRun& run, int64_t done) override;
  void begin_step(int64_t step) override;
  void before_update() override {}
  void end_step(const StepResult&, const UpdateRates&, double) override;
  // Prepares for the calls of rank `rank`, whose kernels are run again on the inputs in the dumps. begin(run, done)
  // calls it with the kernels and the rank of the run; tests call it alone.
  void begin(const Kernels& kernels, int rank);

  void before(const CallInfo& call) override;

 private:
  struct Side {
    explicit Side(const Dump& of) : dump(of), stored(of.folder) {}
    const Dump& dump;
    StoredDump stored;
    std::map<std::string, GeneratedError>* found = nullptr;
  };
  struct Records {
    std::vector<const DumpRecord*> a, b;
    bool differ = false;
  };
  class Call;
  static std::pair<DType, std::span<const std::byte>> values_of(Side& side, const DumpRecord& r);
  void judge(Side& side, const std::vector<const DumpRecord*>& records, Call& call);

  Side a_, b_;
  int rank_ = 0;
  const Kernels* kernels_ = nullptr;
  Ctx* ctx_ = nullptr;
  std::unordered_map<std::string, Records> calls_;  // calls in which the dumps differ
};

}  // namespace ravine
