// Short-lived memory of a step: activations, gradients, scratch. Three kinds of arena behind one interface:
//   RecordingArena  on meta: writes down who lives when, and packs offsets from it (the memory plan);
//   PlannedArena    replays such a plan: the k-th allocation of a section gets the k-th offset, no search, no fragmentation;
//   HeapArena       for runs without a plan (generation, trace, tests): keeps freed blocks for reuse.
// Not thread-safe: only the thread that drives the step allocates.
#pragma once
#include <array>
#include <map>
#include <string>
#include <vector>

#include "device/device.h"

namespace ravine {

struct ArenaBlock {
  std::byte* data = nullptr;
  int64_t bytes = 0;
  int64_t id = -1;
};

class Arena {
 public:
  virtual ~Arena() = default;
  virtual ArenaBlock allocate(int64_t bytes, MemoryKind kind) = 0;
  virtual void release(const ArenaBlock& block) = 0;
  // Begins a named part of the step ("forward 0", "update", "valid"). A part may come many times; it makes the same allocations
  // each time.
  virtual void section(const std::string& /*name*/) {}
  virtual DeviceKind device() const = 0;
  int64_t live() const { return live_; }  // blocks handed out and not released: 0 after a step, else something leaks

 protected:
  int64_t live_ = 0;
};

// Offsets of every allocation of a step, in order, per section.
struct MemoryPlan {
  struct Slot {
    int64_t offset = 0, bytes = 0;
    MemoryKind kind = MemoryKind::activations;
  };
  std::map<std::string, std::vector<Slot>> sections;
  int64_t total = 0;                              // bytes of the arena
  int64_t lower_bound = 0;                        // largest sum of bytes alive at one moment: no packing can need less
  std::array<int64_t, kMemoryKinds> peak_kind{};  // bytes alive by kind at that moment
};

// A part of the step that is recorded several times keeps its offsets: they suit all the times it was alive.
class RecordingArena : public Arena {
 public:
  ArenaBlock allocate(int64_t bytes, MemoryKind kind) override;
  void release(const ArenaBlock& block) override;
  void section(const std::string& name) override;
  DeviceKind device() const override { return DeviceKind::meta; }
  MemoryPlan pack() const;  // first fit by decreasing size over the lifetimes

 private:
  struct Block {
    int64_t bytes;
    MemoryKind kind;
    std::vector<std::pair<int64_t, int64_t>> lives;  // [begin, end), in order; the last may be open: end < 0
  };
  std::vector<Block> blocks_;
  std::map<std::string, std::vector<size_t>> sections_;  // blocks in order of allocation
  int64_t clock_ = 0;
  std::string section_ = "first";
  size_t next_ = 0;  // allocation of the section
};

class PlannedArena : public Arena {
 public:
  PlannedArena(DeviceKind device, MemoryPlan plan);
  // Throws Error if the run asks for more, or for larger blocks, than the plan foresaw.
  ArenaBlock allocate(int64_t bytes, MemoryKind kind) override;
  void release(const ArenaBlock& block) override;
  void section(const std::string& name) override;
  DeviceKind device() const override { return memory_.device(); }
  const MemoryPlan& plan() const { return plan_; }
  // Between steps, when nothing is allocated: its memory goes back until it is used again.
  void forget() { memory_.forget(); }

 private:
  MemoryPlan plan_;
  Storage memory_;
  std::string name_;
  const std::vector<MemoryPlan::Slot>* slots_ = nullptr;
  size_t next_ = 0;
};

class HeapArena : public Arena {
 public:
  explicit HeapArena(DeviceKind device = DeviceKind::cpu) : device_(device) {}
  ArenaBlock allocate(int64_t bytes, MemoryKind kind) override;
  void release(const ArenaBlock& block) override;
  DeviceKind device() const override { return device_; }
  int64_t reserved() const { return reserved_; }

 private:
  DeviceKind device_;
  std::map<int64_t, Storage> used_;       // by id
  std::multimap<int64_t, Storage> free_;  // by size
  int64_t next_id_ = 0, reserved_ = 0;
};

}  // namespace ravine
