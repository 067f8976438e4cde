// The memory plan of a step: blocks that live at the same time never share bytes, also if a section runs many times.
#include "device/arena.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include <time.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"

#pragma GCC diagnostic ignored "-Wmismatched-new-delete"  // the operator new below takes from malloc
static std::atomic<int64_t> allocations{0};
void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* p = std::malloc(bytes ? bytes : 1)) return p;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return ++allocations, std::malloc(bytes ? bytes : 1); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace ravine {
namespace test_arena {

// Two micro batches in turn, as in a pipeline: forward k allocates a block that backward k releases, one step after k +
// 1 has begun.
template <class Check>
void run(Arena& arena, int micros, Check&& check) {
  std::vector<std::vector<ArenaBlock>> kept(static_cast<size_t>(micros));
  auto forward = [&](int k) {
    arena.section("forward " + std::to_string(k % 2));
    for (int64_t bytes : {1000, 3000}) kept[static_cast<size_t>(k)].push_back(arena.allocate(bytes, MemoryKind::activations));
    ArenaBlock scratch = arena.allocate(2000, MemoryKind::workspace);
    kept[static_cast<size_t>(k)].push_back(scratch);
    check(kept);
    kept[static_cast<size_t>(k)].pop_back();
    arena.release(scratch);
  };
  forward(0);
  for (int k = 0; k < micros; ++k) {
    if (k + 1 < micros) forward(k + 1);
    arena.section("backward " + std::to_string(k % 2));
    kept[static_cast<size_t>(k)].push_back(arena.allocate(2500, MemoryKind::gradients));
    check(kept);
    for (const ArenaBlock& b : kept[static_cast<size_t>(k)]) arena.release(b);
    kept[static_cast<size_t>(k)].clear();
  }
}

TEST(Arena, SectionsThatComeAgainKeepTheirOffsets) {
  RecordingArena record;
  run(record, 5, [](const auto&) {});
  EXPECT_EQ(record.live(), 0);
  MemoryPlan plan = record.pack();
  EXPECT_EQ(plan.sections.at("forward 1").size(), 3u);
  EXPECT_GE(plan.total, plan.lower_bound);
  EXPECT_LE(plan.total, 3 * 4096 + 2 * 4096) << "two under way, no more";
  PlannedArena arena(DeviceKind::cpu, plan);
  int seen = 0;
  run(arena, 11, [&](const auto& kept) {
    std::vector<std::pair<std::byte*, std::byte*>> alive;
    for (const auto& micro : kept)
      for (const ArenaBlock& b : micro) alive.emplace_back(b.data, b.data + b.bytes);
    std::sort(alive.begin(), alive.end());
    for (size_t i = 1; i < alive.size(); ++i) EXPECT_LE(alive[i - 1].second, alive[i].first);
    seen += static_cast<int>(alive.size());
  });
  EXPECT_GT(seen, 50);
  EXPECT_EQ(arena.live(), 0);
}

// First fit by its definition: the largest block first, each at the lowest offset that no placed block uses during its
// life.
std::vector<int64_t> first_fit(const std::vector<std::array<int64_t, 3>>& blocks) {  // begin, end, bytes
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return blocks[a][2] > blocks[b][2]; });
  std::vector<int64_t> offsets(blocks.size(), -1);
  for (size_t i : order) {
    int64_t at = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t j = 0; j < blocks.size(); ++j)
        if (offsets[j] >= 0 && blocks[j][0] < blocks[i][1] && blocks[i][0] < blocks[j][1] && offsets[j] < at + blocks[i][2] &&
            at < offsets[j] + blocks[j][2])
          at = offsets[j] + blocks[j][2], moved = true;
    }
    offsets[i] = at;
  }
  return offsets;
}

TEST(Arena, PackingIsFirstFitByDecreasingSize) {
  std::mt19937 draw(7);
  for (int round = 0; round < 20; ++round) {
    RecordingArena arena;
    std::vector<std::array<int64_t, 3>> blocks;
    std::vector<std::pair<ArenaBlock, size_t>> alive;
    for (int64_t clock = 0; blocks.size() < 150 || !alive.empty(); ++clock) {
      if (blocks.size() < 150 && (alive.empty() || draw() % 5 < 3)) {
        const ArenaBlock b = arena.allocate(static_cast<int64_t>(1 + draw() % 8) * 4096, MemoryKind::activations);
        alive.emplace_back(b, blocks.size());
        blocks.push_back({clock, -1, b.bytes});
      } else {
        const size_t k = draw() % alive.size();
        arena.release(alive[k].first);
        blocks[alive[k].second][1] = clock;
        alive.erase(alive.begin() + static_cast<ptrdiff_t>(k));
      }
    }
    const MemoryPlan plan = arena.pack();
    const std::vector<int64_t> offsets = first_fit(blocks);
    for (size_t i = 0; i < blocks.size(); ++i)
      ASSERT_EQ(plan.sections.at("first")[i].offset, offsets[i]) << "round " << round << ", block " << i;
  }
}

// The saved activations of many layers all live between forward and backward. A plan that compares each with each takes
// 16 times as long for 4 times the layers.
TEST(Arena, TimeGrowsWithTheLayersNotWithTheirSquare) {
  auto seconds = [](int layers) {
    RecordingArena arena;
    std::vector<ArenaBlock> kept;
    for (int l = 0; l < layers; ++l) {
      for (int64_t bytes : {8192, 4096, 12288}) kept.push_back(arena.allocate(bytes + 4096 * (l % 3), MemoryKind::activations));
      arena.release(arena.allocate(65536, MemoryKind::workspace));
    }
    while (!kept.empty()) {
      arena.release(arena.allocate(65536, MemoryKind::workspace));
      arena.release(kept.back());
      kept.pop_back();
    }
    double best = 1e9;
    for (int i = 0; i < 3; ++i) {
      timespec a{}, b{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
      EXPECT_GT(arena.pack().total, 0);
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
      best = std::min(best, static_cast<double>(b.tv_sec - a.tv_sec) + 1e-9 * static_cast<double>(b.tv_nsec - a.tv_nsec));
    }
    return best;
  };
  const double small = seconds(2000), large = seconds(8000);
  EXPECT_LT(large, 8 * small + 0.02) << "of 2000 layers " << small << " s, of 8000 " << large << " s";
}

TEST(Arena, ASectionMayNotComeAgainWhileItsMemoryIsInUse) {
  RecordingArena record;
  record.section("a");
  ArenaBlock b = record.allocate(10, MemoryKind::workspace);
  record.section("a");
  EXPECT_THROW(record.allocate(10, MemoryKind::workspace), Error);
  record.release(b);
}

// A run that allocates more than planned gets an Error before it writes over other memory.
TEST(Arena, APlanIsNotLeft) {
  RecordingArena record;
  record.section("a");
  const ArenaBlock small = record.allocate(100, MemoryKind::activations), large = record.allocate(5000, MemoryKind::weights);
  record.release(small), record.release(large);
  PlannedArena arena(DeviceKind::cpu, record.pack());
  EXPECT_THROW(arena.allocate(1, MemoryKind::activations), Error) << "no section has begun";
  arena.section("a");
  const ArenaBlock a = arena.allocate(100, MemoryKind::activations), b = arena.allocate(4000, MemoryKind::weights);
  EXPECT_EQ(arena.live(), 2);
  EXPECT_TRUE(a.data + a.bytes <= b.data || b.data + b.bytes <= a.data);
  EXPECT_THROW(arena.allocate(1, MemoryKind::activations), Error) << "a third one";
  arena.release(a), arena.release(b);
  EXPECT_EQ(arena.live(), 0);
  arena.section("a");
  EXPECT_THROW(arena.allocate(8192 + 1, MemoryKind::activations), Error) << "larger than planned";
  EXPECT_THROW((arena.section("b"), arena.allocate(1, MemoryKind::activations)), Error);
}

// Live bytes at the peak, by kind. No plan is smaller than the live bytes.
TEST(Arena, ThePeakByKind) {
  RecordingArena record;
  record.section("a");
  const ArenaBlock w = record.allocate(4096, MemoryKind::weights), x = record.allocate(8192, MemoryKind::activations);
  record.release(x);
  const ArenaBlock g = record.allocate(16384, MemoryKind::gradients);
  record.release(g), record.release(w);
  const MemoryPlan plan = record.pack();
  EXPECT_EQ(plan.lower_bound, 4096 + 16384);
  EXPECT_EQ(plan.total, 4096 + 16384);
  EXPECT_EQ(plan.peak_kind[static_cast<size_t>(MemoryKind::weights)], 4096);
  EXPECT_EQ(plan.peak_kind[static_cast<size_t>(MemoryKind::gradients)], 16384);
  EXPECT_EQ(plan.peak_kind[static_cast<size_t>(MemoryKind::activations)], 0);
}

TEST(Arena, FreedMemoryOfTheHeapIsTakenAgainWhereItFits) {
  HeapArena arena;
  const ArenaBlock a = arena.allocate(64 << 10, MemoryKind::workspace);
  std::byte* const at = a.data;
  arena.release(a);
  EXPECT_EQ(arena.live(), 0);
  const ArenaBlock b = arena.allocate(40 << 10, MemoryKind::workspace);
  EXPECT_EQ(b.data, at) << "more than half of it is used";
  EXPECT_EQ(arena.reserved(), 64 << 10);
  arena.release(b);
  const ArenaBlock c = arena.allocate(16 << 10, MemoryKind::workspace);
  EXPECT_NE(c.data, at) << "a quarter would waste the rest";
  EXPECT_EQ(arena.reserved(), 80 << 10);
  const ArenaBlock d = arena.allocate(128 << 10, MemoryKind::workspace), e = arena.allocate(1, MemoryKind::workspace);
  EXPECT_EQ(arena.live(), 3);
  for (const ArenaBlock* one : {&c, &d, &e})
    for (const ArenaBlock* other : {&c, &d, &e})
      EXPECT_TRUE(one == other || one->data + one->bytes <= other->data || other->data + other->bytes <= one->data);
  arena.release(c);
  EXPECT_THROW(arena.release(c), Error) << "twice";
}

// Destructors release tensors, often when memory is short.
TEST(Arena, AReleaseAllocatesNothing) {
  HeapArena arena;
  std::vector<ArenaBlock> blocks;
  for (int64_t bytes : {64, 4096, 64, 1 << 20}) blocks.push_back(arena.allocate(bytes, MemoryKind::activations));
  allocations = 0;
  for (const ArenaBlock& b : blocks) arena.release(b);
  EXPECT_EQ(allocations, 0);
  const int64_t reserved = arena.reserved();
  for (int64_t bytes : {1 << 20, 64}) arena.allocate(bytes, MemoryKind::activations);
  EXPECT_EQ(arena.reserved(), reserved);
}

TEST(Storage, IsZeroMovesAndForgets) {
  constexpr int64_t kBytes = (int64_t{2} << 20) + 4096;
  Storage a(DeviceKind::cpu, kBytes);
  for (int64_t i = 0; i < kBytes; i += 4096) ASSERT_EQ(a.data()[i], std::byte{0});
  a.data()[kBytes - 1] = std::byte{7};
  std::byte* const at = a.data();
  Storage b(std::move(a));
  EXPECT_EQ(b.data(), at);
  EXPECT_EQ(b.bytes(), kBytes);
  EXPECT_EQ(a.data(), nullptr);
  EXPECT_EQ(a.bytes(), 0);
  Storage c;
  c = std::move(b);
  EXPECT_EQ(c.data()[kBytes - 1], std::byte{7});
  c.forget();
  EXPECT_EQ(c.data()[kBytes - 1], std::byte{0});
  c.data()[0] = std::byte{1};
  EXPECT_EQ(c.data()[0], std::byte{1}) << "it may be used again";
  const Storage meta(DeviceKind::meta, kBytes);
  EXPECT_EQ(meta.data(), nullptr);
  EXPECT_EQ(meta.bytes(), kBytes);
  EXPECT_THROW(Storage(DeviceKind::cpu, -1), Error);
}

}  // namespace test_arena
}  // namespace ravine
