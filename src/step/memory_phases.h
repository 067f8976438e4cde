// What a step keeps in its arena while it goes on: the parts of the step in their order, and of each the bytes by kind at its
// fullest moment.
#pragma once
#include <array>
#include <numeric>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/arena.h"

namespace ravine {

struct MemoryPhase {
  std::string name;  // "forward 0", "backward 0", "update", "validation"; the number is that of the micro batch among those
                     // that are planned
  std::array<int64_t, kMemoryKinds> at_peak{};
  int64_t total() const { return std::accumulate(at_peak.begin(), at_peak.end(), int64_t{0}); }
};

// Records as its base does, and notes the phases. Of all phases the fullest moment is the plan's: MemoryPlan::peak_kind.
class PhaseArena final : public RecordingArena {
 public:
  ArenaBlock allocate(int64_t bytes, MemoryKind kind) override;
  void release(const ArenaBlock& block) override;
  void section(const std::string& name) override;
  const std::vector<MemoryPhase>& phases() const { return phases_; }

 private:
  std::unordered_map<int64_t, std::pair<MemoryKind, int64_t>> alive_;  // by id
  std::array<int64_t, kMemoryKinds> now_{};
  int64_t sum_ = 0, most_ = 0;  // alive now; at most in this phase
  std::unordered_map<std::string, int64_t> seen_;
  std::vector<MemoryPhase> phases_;
};

}  // namespace ravine
