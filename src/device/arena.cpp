#include "device/arena.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

#include "base/checked.h"

namespace ravine {

namespace {

// Ranges of offsets. Ranges that touch or overlap are joined.
class Ranges {
 public:
  void add(int64_t begin, int64_t end) {
    auto it = ends_.upper_bound(begin);
    if (it != ends_.begin() && std::prev(it)->second >= begin) --it;
    for (; it != ends_.end() && it->first <= end; it = ends_.erase(it)) {
      begin = std::min(begin, it->first);
      end = std::max(end, it->second);
    }
    ends_[begin] = end;
  }
  // Returns the end of the last range that begins before `end` and ends after `begin`; `begin` if there is none.
  int64_t beyond(int64_t begin, int64_t end) const {
    auto it = ends_.lower_bound(end);
    return it == ends_.begin() ? begin : std::max(begin, std::prev(it)->second);
  }

 private:
  std::map<int64_t, int64_t> ends_;  // by begin
};

// The used offsets over time, as a segment tree over time. Each node has the offsets used at some time of its span
// (some_), and the offsets used during all of its span (all_). So take() and lowest() visit few nodes for any number of
// blocks.
class TakenSpace {
 public:
  using Lives = std::vector<std::pair<int64_t, int64_t>>;
  explicit TakenSpace(int64_t times) {
    while (leaves_ < times) leaves_ *= 2;
    some_.resize(static_cast<size_t>(2 * leaves_));
    all_.resize(static_cast<size_t>(2 * leaves_));
  }
  void take(const Lives& lives, int64_t begin, int64_t end) {
    for (auto [from, to] : lives) {
      visit(from, to, [&](size_t node) {
        all_[node].add(begin, end);
        some_[node].add(begin, end);
      });
      for (int64_t a = (from + leaves_) / 2, b = (to - 1 + leaves_) / 2; a > 0; a /= 2, b /= 2) {
        some_[static_cast<size_t>(a)].add(begin, end);
        if (a != b) some_[static_cast<size_t>(b)].add(begin, end);
      }
    }
  }
  // Returns the lowest offset at which `bytes` are free in all the lives.
  int64_t lowest(const Lives& lives, int64_t bytes) const {
    std::vector<const Ranges*> met;
    for (auto [from, to] : lives)
      visit(from, to, [&](size_t node) {
        met.push_back(&some_[node]);
        for (node /= 2; node > 0; node /= 2) met.push_back(&all_[node]);
      });
    std::sort(met.begin(), met.end());
    met.erase(std::unique(met.begin(), met.end()), met.end());
    int64_t at = 0;
    for (size_t clear = 0, i = 0; clear < met.size(); i = (i + 1) % met.size()) {
      const int64_t next = met[i]->beyond(at, at + bytes);
      clear = next == at ? clear + 1 : 0;
      at = next;
    }
    return at;
  }

 private:
  // Calls f for the nodes whose spans make up [from, to).
  template <class F>
  void visit(int64_t from, int64_t to, F&& f) const {
    for (from += leaves_, to += leaves_; from < to; from /= 2, to /= 2) {
      if (from % 2) f(static_cast<size_t>(from++));
      if (to % 2) f(static_cast<size_t>(--to));
    }
  }
  int64_t leaves_ = 1;
  std::vector<Ranges> some_, all_;
};

}  // namespace

ArenaBlock RecordingArena::allocate(int64_t bytes, MemoryKind kind) {
  bytes = round_up(std::max<int64_t>(bytes, 1), kAlignment);
  std::vector<size_t>& section = sections_[section_];
  if (next_ == section.size()) {
    section.push_back(blocks_.size());
    blocks_.push_back({bytes, kind, {}});
  }
  size_t id = section[next_++];
  Block& block = blocks_[id];
  require(block.lives.empty() || block.lives.back().second >= 0,
          "arena: allocation {} of section '{}' is still alive when the section comes again", next_ - 1, section_);
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

MemoryPlan RecordingArena::pack() const {
  MemoryPlan plan;
  std::vector<Block> blocks = blocks_;
  for (Block& b : blocks)
    if (b.lives.back().second < 0) b.lives.back().second = clock_;
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  std::vector<int64_t> offsets(blocks.size());
  TakenSpace space(clock_ + 1);
  for (size_t i : order) {
    const int64_t at = offsets[i] = space.lowest(blocks[i].lives, blocks[i].bytes);
    space.take(blocks[i].lives, at, at + blocks[i].bytes);
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

PlannedArena::PlannedArena(DeviceKind device, MemoryPlan plan) : plan_(std::move(plan)), memory_(device, plan_.total) {
  section("first");
}

void PlannedArena::section(const std::string& name) {
  auto it = plan_.sections.find(name);
  slots_ = it == plan_.sections.end() ? nullptr : &it->second;
  name_ = name;
  next_ = 0;
}

ArenaBlock PlannedArena::allocate(int64_t bytes, MemoryKind) {
  require(slots_ && next_ < slots_->size(), "arena: section '{}' allocates more often than planned ({} times)", name_, next_);
  const MemoryPlan::Slot& slot = (*slots_)[next_++];
  require(bytes <= slot.bytes, "arena: allocation {} of section '{}' asks for {} bytes, the plan has {}", next_ - 1, name_,
          bytes, slot.bytes);
  ++live_;
  return {memory_.data() ? memory_.data() + slot.offset : nullptr, bytes, static_cast<int64_t>(next_) - 1};
}

void PlannedArena::release(const ArenaBlock&) { --live_; }

ArenaBlock HeapArena::allocate(int64_t bytes, MemoryKind) {
  bytes = round_up(std::max<int64_t>(bytes, 1), kAlignment);
  const int64_t id = next_id_++;
  std::byte* data = nullptr;
  if (const auto it = free_.lower_bound(bytes); it != free_.end() && it->first <= 2 * bytes) {
    auto node = free_.extract(it);
    node.key() = id;
    data = node.mapped().data();
    used_.insert(std::move(node));
  } else {
    data = used_.emplace(id, Storage(device_, bytes)).first->second.data();
    reserved_ += bytes;
  }
  ++live_;
  return {data, bytes, id};
}

void HeapArena::release(const ArenaBlock& block) {
  auto node =
      // The map node is moved and nothing is allocated, since destructors release tensors.
      used_.extract(block.id);
  require(!node.empty(), "arena: block {} is released twice", block.id);
  node.key() = node.mapped().bytes();
  free_.insert(std::move(node));
  --live_;
}

}  // namespace ravine
