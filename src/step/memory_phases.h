// The memory of a step by phase: for each phase of the step, the bytes of the arena by kind at the peak of the phase.
#pragma once
#include <array>
#include <numeric>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/arena.h"

namespace ravine {

// A phase of a step, and the bytes of the arena by memory kind at the peak of the phase.
struct MemoryPhase {
  std::string name;  // "forward 0", "backward 0", "update", "validation"; the number counts the planned micro batches
  std::array<int64_t, kMemoryKinds> at_peak{};
  int64_t total() const { return std::accumulate(at_peak.begin(), at_peak.end(), int64_t{0}); }
};

// A RecordingArena that also records the bytes by memory kind at the peak of each phase of a step. The highest peak of
// all phases is MemoryPlan::peak_kind.
class PhaseArena final : public RecordingArena {
 public:
  ArenaBlock allocate(int64_t bytes, MemoryKind kind) override;
  void release(const ArenaBlock& block) override;
  void section(const std::string& name) override;
  const std::vector<MemoryPhase>& phases() const { return phases_; }

 private:
  std::unordered_map<int64_t, std::pair<MemoryKind, int64_t>> alive_;  // by id
  std::array<int64_t, kMemoryKinds> now_{};
  int64_t sum_ = 0, most_ = 0;  // bytes alive now; the most in this phase
  std::unordered_map<std::string, int64_t> seen_;
  std::vector<MemoryPhase> phases_;
};

}  // namespace ravine
