// Records a checksum of each output of each kernel call (eight bytes per tensor and call), and finds the first call of
// another run with a different output.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>

#include "engine/observer.h"

namespace ravine {

// An observer that records a checksum of each output of each kernel call of a run, or compares them with another run's.
class OpHashes : public Observer {
 public:
  // reference: null records the checksums of this run. Not null: the calls of this run are compared with the checksums
  // that `reference` has recorded; it must outlive this object.
  explicit OpHashes(const OpHashes* reference = nullptr) : reference_(reference) {}
  void after(const CallInfo& call) override;

  // The first call with a different output. Calls are matched by step, micro batch, phase, path, op, tensor and
  // ordinal. A recomputed call is matched with the call of the forward pass. Calls of only one run are ignored.
  struct Difference {
    int64_t step = 0, micro = 0;  // both from 1; step 0: no difference
    std::string op, path, phase, tensor;
  };
  const Difference& difference() const { return difference_; }
  int64_t compared() const { return compared_; }  // number of outputs that were compared with the other run
  int64_t seen() const { return seen_; }          // number of all outputs of this run

 private:
  const OpHashes* reference_;
  std::unordered_map<uint64_t, uint64_t> hashes_;  // checksum of the bits, by checksum of step, call and tensor
  int64_t compared_ = 0, seen_ = 0;
  Difference difference_;
};

uint64_t checksum_of_view(const TensorView& view);  // returns a checksum of the elements' bits, row after row

}  // namespace ravine
