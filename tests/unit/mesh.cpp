// The mesh: Megatron's order, and every rank in exactly one group of each axis.
#include "comm/mesh.h"

#include <gtest/gtest.h>

#include <set>

#include "comm/group.h"

namespace ravine {
namespace {

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

TEST(FakeGroup, CountsWhatItWouldMove) {
  FakeGroup g(5, 1024);
  g.all_gather(nullptr, nullptr, 1 << 20).wait();
  g.all_to_all(nullptr, nullptr, 10).wait();
  EXPECT_EQ(g.traffic().bytes, 1023 * ((1 << 20) + 10));
  EXPECT_EQ(gather_integers(g, 7), std::vector<int64_t>(1024, 7));
}

}  // namespace
}  // namespace ravine
