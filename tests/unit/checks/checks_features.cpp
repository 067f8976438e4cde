#include <gtest/gtest.h>

#include "checks/bisect_features.h"

namespace ravine {

// Every pair and every single feature of eight is found, by at most 30 trainings.
TEST(Features, singles_and_pairs_are_found) {
  constexpr int kCount = 8;
  for (int i = 0; i < kCount; ++i)
    for (int j = i; j < kCount; ++j) {
      int runs = 0;
      const auto sets = guilty_sets(kCount, [&](const std::set<int>& on) { return ++runs, on.contains(i) && on.contains(j); });
      ASSERT_EQ(sets.size(), 1U) << i << " " << j;
      EXPECT_EQ(sets[0], (std::set<int>{i, j}));
      EXPECT_LE(runs, 30);
    }
}

TEST(Features, a_single_one_beside_a_pair) {
  const auto sets =
      guilty_sets(6, [](const std::set<int>& on) { return on.contains(2) || (on.contains(0) && on.contains(5)); });
  ASSERT_EQ(sets.size(), 2U);
  EXPECT_EQ(sets[0], std::set<int>{2});
  EXPECT_EQ(sets[1], (std::set<int>{0, 5}));
}

TEST(Features, none_is_guilty) {
  EXPECT_TRUE(guilty_sets(5, [](const std::set<int>&) { return false; }).empty());
  EXPECT_TRUE(guilty_sets(0, [](const std::set<int>&) { return true; }).empty());
}

TEST(Features, of_a_config) {
  Config c;
  c.train.recompute = Recompute::full;
  c.parallel.tensor = 2, c.parallel.sequence = true, c.parallel.pipeline = 2;
  const std::vector<Feature> all = features_of(c, false);
  std::set<std::string> names;
  for (const Feature& f : all) {
    names.insert(f.name);
    f.off(c);
  }
  for (const char* name : {"recompute", "parallel.tensor", "parallel.sequence", "parallel.pipeline", "fused rope"})
    EXPECT_TRUE(names.contains(name)) << name;
  EXPECT_TRUE(features_of(c, false).empty());
}

}  // namespace ravine
