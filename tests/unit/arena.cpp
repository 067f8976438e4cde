// The plan of a step's memory: whoever is alive at the same time never shares bytes, also when a section comes many times.
#include "device/arena.h"

#include <gtest/gtest.h>

#include <time.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"

namespace ravine {
namespace {

// Two micro batches under way in turn, as in a pipeline: forward k takes a place that backward k gives back, one step later than k + 1 began.
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

TEST(Arena, SectionsThatComeAgainKeepTheirPlaces) {
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

// First fit by its definition: the largest first, each at the lowest offset that none of those placed before takes while it is alive.
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
        if (offsets[j] >= 0 && blocks[j][0] < blocks[i][1] && blocks[i][0] < blocks[j][1] && offsets[j] < at + blocks[i][2] && at < offsets[j] + blocks[j][2])
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
    for (size_t i = 0; i < blocks.size(); ++i) ASSERT_EQ(plan.sections.at("first")[i].offset, offsets[i]) << "round " << round << ", block " << i;
  }
}

// Saved activations of many layers are all alive between forward and backward: a plan that compares each with each takes 16 times as long for
// 4 times the layers.
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

}  // namespace
}  // namespace ravine
