// Substitution: our kernels on what the calls of two dumps have read. Held against what these calls have written, that tells
// what a call has generated from what it has inherited, of each dump by itself.
//
// A watcher of a run that makes the steps of the dumps again. Before a call runs, it runs on memory of its own once for each
// dump, on that dump's inputs: those that are stored, or that are the same bits as the run's own (so a dump of the run itself
// needs no tensors). Known has to be all that the call reads, in its shape. Floats of another type are rounded to ours, and how
// far that moves the operand is part of the bound. What another program's trace lacks (rstd, lse, positions) leaves a call open.
// Numbers of the call (eps, scale, a seed of dropout, rates of an update) are those of the run that is made again. Integers
// point into memory: a call whose ids or choices are others than the run's is not judged, nor one that chooses otherwise than
// ours. What our kernel leaves unwritten counts as the same.
//
// The bound is twice the kernel's own (kernels/error_bounds.h), since both round, and nothing inherited. So of calls behind a
// large difference a small fault is seen.
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
#include "train/step_watch.h"

namespace ravine {

// What was found, by key_on() of what is written.
struct Substituted {
  std::map<std::string, GeneratedError> a, b;
  std::map<std::string, double> spread;  // as parts of the run's (spread.h); of what is read too
  static std::string key_on(int rank, const DumpRecord& r) { return fmt::format("{}/{}", rank, r.key()); }
  // To other ranks and back.
  Json json() const;
  void add(const Json& of_a_rank);
};

class Substitution : public StepWatch, public Observer {
 public:
  // Of the same layout (whole_run.h), which outlive it.
  Substitution(const Dump& a, const Dump& b, Substituted& found);

  void begin(OpenedRun& run, int64_t done) override;
  void begin_step(int64_t step) override;
  void before_update() override {}
  void end_step(const StepResult&, const UpdateRates&, double) override;
  // Of begin(), for tests: whose calls, and the kernels that run.
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
  std::unordered_map<std::string, Records> calls_;  // in which the dumps differ
};

}  // namespace ravine
