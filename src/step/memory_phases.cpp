#include "step/memory_phases.h"

#include <fmt/format.h>

namespace ravine {

ArenaBlock PhaseArena::allocate(int64_t bytes, MemoryKind kind) {
  const ArenaBlock block = RecordingArena::allocate(bytes, kind);
  alive_[block.id] = {kind, block.bytes};
  now_[static_cast<size_t>(kind)] += block.bytes;
  sum_ += block.bytes;
  if (phases_.empty()) phases_.push_back({"before", {}});
  if (sum_ > most_) {
    most_ = sum_;
    phases_.back().at_peak = now_;
  }
  return block;
}

void PhaseArena::release(const ArenaBlock& block) {
  const auto [kind, bytes] = alive_.at(block.id);
  alive_.erase(block.id);
  now_[static_cast<size_t>(kind)] -= bytes;
  sum_ -= bytes;
  RecordingArena::release(block);
}

void PhaseArena::section(const std::string& name) {
  RecordingArena::section(name);
  const std::string task = name.substr(0, name.find(' '));
  const bool of_micro = task == "forward" || task == "backward";
  phases_.push_back({of_micro ? fmt::format("{} {}", task, seen_[task]++) : task == "valid" ? "validation" : task, now_});
  most_ = sum_;
}

}  // namespace ravine
