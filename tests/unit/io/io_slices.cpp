#include "io/slices.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

using namespace ravine;

namespace test_io_slices {

TEST(Slices, CoverFaults) {
  const Shape g{4, 6};
  EXPECT_EQ(cover_fault(g, {{{0, 0}, {4, 6}}}), "");
  EXPECT_EQ(cover_fault(g, {{{2, 0}, {2, 6}}, {{0, 3}, {2, 3}}, {{0, 0}, {2, 3}}}), "");
  EXPECT_EQ(cover_fault(g, {{{0, 0}, {4, 6}}, {{0, 0}, {0, 6}}}), "");  // an empty slice holds nothing
  EXPECT_EQ(cover_fault(Shape{}, {{{}, {}}}), "");
  EXPECT_EQ(cover_fault(Shape{0, 3}, {}), "");
  EXPECT_NE(cover_fault(Shape{}, {}).find("0 of the 1"), std::string::npos);
  EXPECT_NE(cover_fault(Shape{}, {{{}, {}}, {{}, {}}}).find("overlap"), std::string::npos);
  EXPECT_NE(cover_fault(g, {{{0, 0}, {3, 6}}}).find("18 of the 24"), std::string::npos);
  EXPECT_NE(cover_fault(g, {{{0, 0}, {3, 6}}, {{2, 0}, {1, 6}}}).find("overlap"), std::string::npos);
  EXPECT_NE(cover_fault(g, {{{0, 0}, {4, 3}}, {{1, 2}, {3, 4}}}).find("overlap"), std::string::npos);
  EXPECT_NE(cover_fault(g, {{{1, 0}, {4, 6}}}).find("outside"), std::string::npos);
  EXPECT_NE(cover_fault(g, {{{-1, 0}, {4, 6}}}).find("outside"), std::string::npos);
  EXPECT_NE(cover_fault(g, {{{0}, {24}}}).find("dims"), std::string::npos);
}

// Against the definition: each element that lies in both boxes, once.
TEST(Slices, SharedRunsAreTheIntersection) {
  std::mt19937 random(7);
  auto pick = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  for (int trial = 0; trial < 2000; ++trial) {
    const int rank = static_cast<int>(pick(5)) + (trial % 7 == 0 ? 0 : 1);
    Shape global;
    for (int d = 0; d < std::min(rank, 5); ++d) global.push_back(1 + pick(4));
    auto box = [&] {
      Box b;
      for (int64_t n : global) {
        b.begin.push_back(trial % 3 ? pick(n) : 0);
        b.shape.push_back(trial % 3 ? pick(n - b.begin.back() + 1) : n);
      }
      return b;
    };
    const Box a = box(), b = box();
    auto offset = [&](const Box& in, const std::vector<int64_t>& at) {
      int64_t o = 0;
      for (size_t d = 0; d < at.size(); ++d) {
        const int64_t i = at[d] - in.begin[d];
        if (i < 0 || i >= in.shape[static_cast<int>(d)]) return int64_t{-1};
        o = o * in.shape[static_cast<int>(d)] + i;
      }
      return o;
    };
    std::vector<std::pair<int64_t, int64_t>> expected, got;
    std::vector<int64_t> at(static_cast<size_t>(global.rank()));
    for (int64_t i = 0; i < global.count(); ++i) {
      if (const int64_t x = offset(a, at), y = offset(b, at); x >= 0 && y >= 0) expected.emplace_back(x, y);
      for (int d = global.rank() - 1; d >= 0 && ++at[static_cast<size_t>(d)] == global[d]; --d) at[static_cast<size_t>(d)] = 0;
    }
    int64_t runs = 0;
    each_shared_run(a, b, [&](const ravine::Run& r) {
      ++runs;
      for (int64_t i = 0; i < r.count; ++i) got.emplace_back(r.from + i, r.to + i);
    });
    ASSERT_EQ(got, expected) << a.text() << " in " << b.text();
    if (a.shape == global && b.shape == global) {
      ASSERT_EQ(runs, 1);
    }
  }
}

}  // namespace test_io_slices
