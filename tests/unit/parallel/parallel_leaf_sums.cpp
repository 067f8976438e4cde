// LeafSums: the order of the additions, which shows where they round, and the memory that waits.
#include "parallel/leaf_sums.h"

#include <gtest/gtest.h>

#include "kernels/backend.h"
#include "parallel/stash.h"

namespace ravine {
namespace test_parallel_leaf_sums {

struct Summed {
  Summed() : stash(make_stash(Recompute::none)) {
    Ctx::Setup s;
    s.kernels = &kernels, s.arena = &arena, s.stash = stash.get(), s.types = Types::of(DType::f64);
    c = std::make_unique<Ctx>(s);
  }
  void add(double x) {
    Tensor t = c->empty({2}, DType::f64, MemoryKind::gradients);
    t.view().as<double>()[0] = x, t.view().as<double>()[1] = -x;
    sums.add(*c, std::move(t));
  }
  double total() {
    const Tensor t = sums.total(*c);
    EXPECT_EQ(t.view().as<double>()[1], -t.view().as<double>()[0]);
    return t.view().as<double>()[0];
  }
  HeapArena arena;
  Kernels kernels = ref_kernels();
  std::unique_ptr<Stash> stash;
  std::unique_ptr<Ctx> c;
  LeafSums sums;
};

constexpr double kTiny = 0x1p-53;  // half of the last digit of 1: 1 + kTiny is 1, and 1 + (kTiny + kTiny) is not

TEST(LeafSums, OfAPowerOfTwoAreABalancedTree) {
  Summed s;
  for (double x : {1.0, kTiny, kTiny, kTiny}) s.add(x);
  EXPECT_EQ(s.total(), (1 + kTiny) + (kTiny + kTiny));
  EXPECT_NE((1 + kTiny) + (kTiny + kTiny), ((1 + kTiny) + kTiny) + kTiny);
}

TEST(LeafSums, OtherNumbersEndWithTheLastOnes) {
  Summed s;
  for (double x : {1.0, 0.0, 0.0, 0.0, kTiny, 0.0, kTiny}) s.add(x);
  EXPECT_EQ(s.total(), 1 + (kTiny + kTiny));
  EXPECT_NE(1 + (kTiny + kTiny), (1 + kTiny) + kTiny);
}

// Neighbours first, whoever adds them: the sums of two halves add up to the sum of all.
TEST(LeafSums, OfHalvesAreThoseOfTheWhole) {
  const std::vector<double> leaves = {1, 3 * kTiny, -0.1, 7.7, 1e-9, kTiny, -1, 0.3};
  Summed all, left, right;
  for (size_t i = 0; i < leaves.size(); ++i) all.add(leaves[i]), (i < 4 ? left : right).add(leaves[i]);
  EXPECT_EQ(all.total(), left.total() + right.total());
}

TEST(LeafSums, KeepOneTensorOfALevel) {
  Summed s;
  const int64_t waiting[] = {1, 1, 2, 1, 2, 2, 3, 1};
  for (int64_t n : waiting) {
    s.add(1);
    EXPECT_EQ(s.arena.live(), n);
  }
  EXPECT_EQ(s.total(), 8);
  EXPECT_EQ(s.arena.live(), 0);
  EXPECT_FALSE(s.sums.total(*s.c)) << "none since";
  s.add(5);
  EXPECT_EQ(s.total(), 5) << "it begins anew";
  s.add(5), s.add(6), s.add(7);
  s.sums.clear();
  EXPECT_EQ(s.arena.live(), 0);
  s.add(1), s.add(2);
  EXPECT_EQ(s.total(), 3);
}

}  // namespace test_parallel_leaf_sums
}  // namespace ravine
