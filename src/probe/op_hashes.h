// Remembers a checksum of everything that every kernel call writes, eight bytes per tensor and call, and finds the first call
// of another run that writes something else.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>

#include "engine/observer.h"

namespace ravine {

class OpHashes : public Observer {
 public:
  // With `reference` calls are compared with what it has seen (it must outlive this); without, they are remembered.
  explicit OpHashes(const OpHashes* reference = nullptr) : reference_(reference) {}
  void after(const CallInfo& call) override;

  // The first call whose output differs. Calls are matched by step, micro batch, phase, path, op, tensor and how often that
  // came before; recomputation is matched with the forward pass it repeats. Calls that only one of the runs makes are passed
  // over.
  struct Difference {
    int64_t step = 0, micro = 0;  // both from 1; step 0: none
    std::string op, path, phase, tensor;
  };
  const Difference& difference() const { return difference_; }
  int64_t compared() const { return compared_; }  // tensors that were matched
  int64_t seen() const { return seen_; }          // tensors in all

 private:
  const OpHashes* reference_;
  std::unordered_map<uint64_t, uint64_t> hashes_;  // of the key of a tensor and call: of its bits
  int64_t compared_ = 0, seen_ = 0;
  Difference difference_;
};

uint64_t checksum_of_view(const TensorView& view);  // of its elements, row after row

}  // namespace ravine
