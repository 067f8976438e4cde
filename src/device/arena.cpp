#include "device/arena.h"

#include <algorithm>
#include <numeric>

#include "base/checked.h"

namespace ravine {

ArenaBlock RecordingArena::allocate(int64_t bytes, MemoryKind kind) {
  bytes = round_up(std::max<int64_t>(bytes, 1), kAlignment);
  std::vector<size_t>& section = sections_[section_];
  if (next_ == section.size()) {
    section.push_back(blocks_.size());
    blocks_.push_back({bytes, kind, {}});
  }
  size_t id = section[next_++];
  Block& block = blocks_[id];
  require(block.lives.empty() || block.lives.back().second >= 0, "arena: allocation {} of section '{}' is still alive when the section comes again",
          next_ - 1, section_);
  block.bytes = std::max(block.bytes, bytes);
  block.lives.emplace_back(clock_++, -1);
  ++live_;
  return {nullptr, bytes, static_cast<int64_t>(id)};
}

void RecordingArena::release(const ArenaBlock& block) {
  blocks_[static_cast<size_t>(block.id)].lives.back().second = clock_++;
  --live_;
}

void RecordingArena::section(const std::string& name) {
  section_ = name;
  next_ = 0;
  ++clock_;
}

bool RecordingArena::meet(const Block& a, const Block& b) {
  for (size_t i = 0, j = 0; i < a.lives.size() && j < b.lives.size();) {
    if (a.lives[i].second <= b.lives[j].first)
      ++i;
    else if (b.lives[j].second <= a.lives[i].first)
      ++j;
    else
      return true;
  }
  return false;
}

MemoryPlan RecordingArena::pack() const {
  MemoryPlan plan;
  std::vector<Block> blocks = blocks_;
  for (Block& b : blocks)
    if (b.lives.back().second < 0) b.lives.back().second = clock_;
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  std::vector<int64_t> offsets(blocks.size());
  std::vector<size_t> placed;  // by offset
  for (size_t i : order) {
    int64_t at = 0;
    for (size_t j : placed) {
      if (!meet(blocks[i], blocks[j])) continue;
      if (offsets[j] >= at + blocks[i].bytes) break;
      at = std::max(at, offsets[j] + blocks[j].bytes);
    }
    offsets[i] = at;
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i, [&](size_t a, size_t b) { return offsets[a] < offsets[b]; }), i);
    plan.total = std::max(plan.total, at + blocks[i].bytes);
  }
  for (const auto& [name, ids] : sections_)
    for (size_t i : ids) plan.sections[name].push_back({offsets[i], blocks[i].bytes, blocks[i].kind});

  std::vector<std::pair<int64_t, size_t>> events;  // (time, 2 * block + is_begin): ends before begins at equal times
  for (size_t i = 0; i < blocks.size(); ++i)
    for (auto [begin, end] : blocks[i].lives) {
      events.emplace_back(begin, 2 * i + 1);
      events.emplace_back(end, 2 * i);
    }
  std::sort(events.begin(), events.end());
  std::array<int64_t, kMemoryKinds> now{};
  int64_t sum = 0;
  for (auto [time, e] : events) {
    const Block& l = blocks[e / 2];
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
