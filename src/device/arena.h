// The memory of a step: activations, gradients, scratch. Three arenas share one interface.
//   RecordingArena  on the meta device: records the lifetime of each allocation and packs offsets (the memory plan).
//   PlannedArena    replays a plan, without search: the k-th allocation of a section gets the k-th offset.
//   HeapArena       for runs without a plan (generation, trace, tests): keeps freed blocks for reuse.
// Not thread-safe: only the thread that runs the step allocates.
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
  // Begins a named section of the step ("forward 0", "update", "valid"): later allocations belong to it. A section may
  // run many times, with equal allocations each time.
  virtual void section(const std::string& /*name*/) {}
  virtual DeviceKind device() const = 0;
  // Returns the number of blocks that are allocated and not released. A value other than 0 after a step is a leak.
  int64_t live() const { return live_; }

 protected:
  int64_t live_ = 0;
};

// The memory plan of a step: the offset of every allocation in the arena, in order, per section.
struct MemoryPlan {
  struct Slot {
    int64_t offset = 0, bytes = 0;
    MemoryKind kind = MemoryKind::activations;
  };
  std::map<std::string, std::vector<Slot>> sections;
  int64_t total = 0;                              // bytes of the arena
  int64_t lower_bound = 0;                        // largest sum of live bytes at one time: no packing needs less
  std::array<int64_t, kMemoryKinds> peak_kind{};  // live bytes by kind at this time
};

// Makes a memory plan: an arena on the meta device that records allocations without memory. A section that runs several
// times has one set of offsets, which fits all its runs.
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
    std::vector<std::pair<int64_t, int64_t>> lives;  // [begin, end), in order; the last may still be live: end < 0
  };
  std::vector<Block> blocks_;
  std::map<std::string, std::vector<size_t>> sections_;  // indices of blocks, in order of allocation
  int64_t clock_ = 0;
  std::string section_ = "first";
  size_t next_ = 0;  // number of the next allocation in the section
};

class PlannedArena : public Arena {
 public:
  PlannedArena(DeviceKind device, MemoryPlan plan);
  // Returns the next block of the current section, at its planned offset. An Error if the section allocates more often,
  // or larger blocks, than planned.
  ArenaBlock allocate(int64_t bytes, MemoryKind kind) override;
  void release(const ArenaBlock& block) override;
  void section(const std::string& name) override;
  DeviceKind device() const override { return memory_.device(); }
  const MemoryPlan& plan() const { return plan_; }
  // Returns the pages of the arena to the system until they are used again. Called between steps, if nothing is
  // allocated.
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
