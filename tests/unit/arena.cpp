// The plan of a step's memory: whoever is alive at the same time never shares bytes, also when a section comes many times.
#include "device/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
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
