// The mesh: Megatron's order, and every rank in exactly one group of each axis.
#include "comm/mesh.h"

#include <gtest/gtest.h>

#include <stdlib.h>

#include <set>

#include "comm/group.h"
#include "comm/ranks.h"

namespace ravine {
namespace test_mesh {

TEST(Mesh, TensorRanksAreNeighbours) {
  Mesh m{2, 3, 4};
  EXPECT_EQ(coordinates_of(m, 1), (Coordinates{0, 0, 1}));
  EXPECT_EQ(coordinates_of(m, 4), (Coordinates{0, 1, 0}));
  EXPECT_EQ(coordinates_of(m, 12), (Coordinates{1, 0, 0}));
  EXPECT_EQ(ranks_along(m, Axis::tensor, 6), (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(ranks_along(m, Axis::data, 6), (std::vector<int>{2, 6, 10}));
  EXPECT_EQ(ranks_along(m, Axis::pipeline, 6), (std::vector<int>{6, 18}));
}

TEST(Mesh, GroupsPartitionTheRanks) {
  Mesh m{2, 3, 4};
  for (Axis axis : {Axis::pipeline, Axis::data, Axis::tensor}) {
    std::set<int> seen;
    for (const auto& group : groups_along(m, axis)) {
      EXPECT_EQ(group.size(), static_cast<size_t>(m.size(axis)));
      for (int rank : group) {
        EXPECT_TRUE(seen.insert(rank).second);
        EXPECT_EQ(ranks_along(m, axis, rank), group);
      }
    }
    EXPECT_EQ(seen.size(), 24u);
  }
  for (int rank = 0; rank < m.ranks(); ++rank) EXPECT_EQ(rank_of(m, coordinates_of(m, rank)), rank);
}

// Context ranks are between tensor and data ranks, as in Megatron's "tp-cp-ep-dp-pp"; experts are adjacent data ranks.
TEST(Mesh, ContextAndExperts) {
  const Mesh m{.pipeline = 2, .data = 4, .tensor = 2, .context = 3, .expert = 2};
  EXPECT_EQ(m.ranks(), 48);
  EXPECT_EQ(m.size(Axis::expert_data), 2);
  EXPECT_EQ(m.text(), "data 4 x tensor 2 x context 3 x expert 2 x pipeline 2");
  EXPECT_EQ(Mesh().text(), "");
  EXPECT_EQ(coordinates_of(m, 2), (Coordinates{.context = 1}));
  EXPECT_EQ(coordinates_of(m, 6), (Coordinates{.data = 1}));
  EXPECT_EQ(coordinates_of(m, 24), (Coordinates{.pipeline = 1}));
  const int rank = rank_of(m, {.pipeline = 1, .data = 3, .tensor = 1, .context = 2});
  EXPECT_EQ(rank, 47);
  EXPECT_EQ(ranks_along(m, Axis::context, rank), (std::vector<int>{43, 45, 47}));
  EXPECT_EQ(ranks_along(m, Axis::data, rank), (std::vector<int>{29, 35, 41, 47}));
  EXPECT_EQ(ranks_along(m, Axis::expert, rank), (std::vector<int>{41, 47})) << "neighbours hold different experts";
  EXPECT_EQ(ranks_along(m, Axis::expert_data, rank), (std::vector<int>{35, 47})) << "the same experts again";
  for (Axis axis : kAxes) {
    std::set<int> seen;
    for (const auto& group : groups_along(m, axis)) {
      EXPECT_EQ(group.size(), static_cast<size_t>(m.size(axis))) << name(axis);
      for (size_t i = 0; i < group.size(); ++i) {
        EXPECT_TRUE(seen.insert(group[i]).second) << name(axis);
        EXPECT_EQ(coordinates_of(m, group[i]).along(axis, m), static_cast<int>(i)) << name(axis);
      }
    }
    EXPECT_EQ(seen.size(), 48u) << name(axis);
  }
  const Ranks fake = Ranks::fake({.data = 4, .expert = 2}, 3);
  EXPECT_EQ(fake.along(Axis::expert).rank(), 1);
  EXPECT_EQ(fake.along(Axis::expert_data).size(), 2);
  const Ranks plain = Ranks::fake({.data = 4}, 3);
  EXPECT_EQ(&plain.along(Axis::expert_data), &plain.along(Axis::data)) << "no experts: all data ranks hold the same";
}

TEST(FakeGroup, CountsRaggedPiecesOfOthers) {
  const FakeGroup g(1, 3);
  const std::vector<int64_t> to{5, 100, 7}, from{1, 100, 2};
  g.all_to_all(nullptr, to, nullptr, from).wait();
  EXPECT_EQ(g.traffic().bytes, 12);
}

TEST(FakeGroup, CountsWhatItWouldMove) {
  FakeGroup g(5, 1024);
  g.all_gather(nullptr, nullptr, 1 << 20).wait();
  g.all_to_all(nullptr, nullptr, 10).wait();
  EXPECT_EQ(g.traffic().bytes, 1023 * ((1 << 20) + 10));
  EXPECT_EQ(gather_integers(g, 7), std::vector<int64_t>(1024, 7));
}

TEST(FakeGroup, SendsCountAndReceivesDoNot) {
  FakeGroup g(1, 4);
  int64_t mine = 7, there = 0;
  g.send(&mine, 100, 2).wait();
  EXPECT_EQ(g.traffic().bytes, 100);
  g.receive(&there, 8, 2).wait();
  EXPECT_EQ(g.traffic().bytes, 100);
  EXPECT_EQ(g.traffic().calls, 1);
}

TEST(SelfGroup, IsOneRankAndSendsNothing) {
  SelfGroup g;
  const int32_t mine[] = {1, 2, 3};
  int32_t all[] = {0, 0, 0};
  g.all_gather(mine, all, sizeof mine).wait();
  EXPECT_EQ(all[2], 3);
  all[2] = 0;
  g.all_to_all(mine, all, sizeof mine).wait();
  EXPECT_EQ(all[2], 3);
  EXPECT_THROW(g.send(mine, 4, 1), std::exception);
  EXPECT_THROW(g.receive(all, 4, 1), std::exception);
  EXPECT_EQ(gather_texts(g, "text"), std::vector<std::string>{"text"});
}

TEST(Ranks, OneThatIsPlayedStandsWhereItWould) {
  const Ranks r = Ranks::fake({2, 3, 4}, 17);  // stage 1, data 1, tensor 1
  EXPECT_EQ(r.at(), (Coordinates{1, 1, 1}));
  EXPECT_EQ(r.rank(), 17);
  EXPECT_EQ(r.size(), 24);
  EXPECT_FALSE(r.first());
  EXPECT_TRUE(r.last_stage());
  EXPECT_FALSE(Ranks::fake({2, 3, 4}, 11).last_stage());
  for (Axis a : {Axis::pipeline, Axis::data, Axis::tensor}) {
    EXPECT_EQ(r.along(a).size(), r.mesh().size(a));
    EXPECT_EQ(r.along(a).rank(), 1);
  }
  EXPECT_EQ(r.back().size(), 2);
  EXPECT_EQ(r.all().rank(), 17);
  EXPECT_EQ(name(Axis::pipeline), "pipeline");
  EXPECT_EQ(name(Axis::data), "data");
  EXPECT_EQ(name(Axis::tensor), "tensor");
}

TEST(World, WhatNobodyLaunchedIsAlone) { EXPECT_EQ(open_world()->size(), 1); }

}  // namespace test_mesh
}  // namespace ravine
