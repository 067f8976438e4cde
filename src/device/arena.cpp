#include "device/arena.h"

#include <algorithm>
#include <numeric>

#include "base/checked.h"

namespace ravine {

ArenaBlock RecordingArena::allocate(int64_t bytes, MemoryKind kind) {
  bytes = round_up(std::max<int64_t>(bytes, 1), kAlignment);
  lives_.push_back({bytes, clock_++, -1, kind, section_});
  ++live_;
  return {nullptr, bytes, static_cast<int64_t>(lives_.size()) - 1};
}

void RecordingArena::release(const ArenaBlock& block) {
  lives_[static_cast<size_t>(block.id)].end = clock_++;
  --live_;
}

void RecordingArena::section(const std::string& name) {
  section_ = name;
  ++clock_;
}

MemoryPlan RecordingArena::pack() const {
  MemoryPlan plan;
  std::vector<Life> lives = lives_;
  for (auto& l : lives)
    if (l.end < 0) l.end = clock_;
  std::vector<size_t> order(lives.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return lives[a].bytes > lives[b].bytes; });
  std::vector<int64_t> offsets(lives.size());
  std::vector<size_t> placed;  // by offset
  for (size_t i : order) {
    int64_t at = 0;
    for (size_t j : placed) {
      if (lives[j].end <= lives[i].begin || lives[j].begin >= lives[i].end) continue;
      if (offsets[j] >= at + lives[i].bytes) break;
      at = std::max(at, offsets[j] + lives[j].bytes);
    }
    offsets[i] = at;
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i, [&](size_t a, size_t b) { return offsets[a] < offsets[b]; }), i);
    plan.total = std::max(plan.total, at + lives[i].bytes);
  }
  for (size_t i = 0; i < lives.size(); ++i) plan.sections[lives[i].section].push_back({offsets[i], lives[i].bytes, lives[i].kind});

  std::vector<std::pair<int64_t, size_t>> events;  // (time, 2 * life + is_begin): ends before begins at equal times
  for (size_t i = 0; i < lives.size(); ++i) {
    events.emplace_back(lives[i].begin, 2 * i + 1);
    events.emplace_back(lives[i].end, 2 * i);
  }
  std::sort(events.begin(), events.end());
  std::array<int64_t, kMemoryKinds> now{};
  int64_t sum = 0;
  for (auto [time, e] : events) {
    const Life& l = lives[e / 2];
    int64_t change = (e % 2) ? l.bytes : -l.bytes;
    now[static_cast<size_t>(l.kind)] += change;
    sum += change;
    if (sum > plan.lower_bound) {
      plan.lower_bound = sum;
      plan.peak_kind = now;
    }
  }
  return plan;
}

PlannedArena::PlannedArena(DeviceKind device, MemoryPlan plan) : plan_(std::move(plan)), memory_(device, plan_.total) { section("first"); }

void PlannedArena::section(const std::string& name) {
  auto it = plan_.sections.find(name);
  slots_ = it == plan_.sections.end() ? nullptr : &it->second;
  name_ = name;
  next_ = 0;
}

ArenaBlock PlannedArena::allocate(int64_t bytes, MemoryKind) {
  require(slots_ && next_ < slots_->size(), "arena: section '{}' allocates more often than planned ({} times)", name_, next_);
  const MemoryPlan::Slot& slot = (*slots_)[next_++];
  require(bytes <= slot.bytes, "arena: allocation {} of section '{}' asks for {} bytes, the plan has {}", next_ - 1, name_, bytes, slot.bytes);
  ++live_;
  return {memory_.data() ? memory_.data() + slot.offset : nullptr, bytes, static_cast<int64_t>(next_) - 1};
}

void PlannedArena::release(const ArenaBlock&) { --live_; }

ArenaBlock HeapArena::allocate(int64_t bytes, MemoryKind) {
  bytes = round_up(std::max<int64_t>(bytes, 1), kAlignment);
  int64_t id = next_id_++;
  auto it = free_.lower_bound(bytes);
  Storage s;
  if (it != free_.end() && it->first <= 2 * bytes) {
    s = std::move(it->second);
    free_.erase(it);
  } else {
    s = Storage(device_, bytes);
    reserved_ += bytes;
  }
  ++live_;
  std::byte* data = s.data();
  used_.emplace(id, std::move(s));
  return {data, bytes, id};
}

void HeapArena::release(const ArenaBlock& block) {
  auto it = used_.find(block.id);
  require(it != used_.end(), "arena: block {} is released twice", block.id);
  int64_t size = it->second.bytes();
  free_.emplace(size, std::move(it->second));
  used_.erase(it);
  --live_;
}

}  // namespace ravine
