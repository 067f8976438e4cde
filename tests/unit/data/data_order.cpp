// The order of samples: permutation and blend.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "data/blend.h"
#include "data/permutation.h"

namespace ravine {
namespace test_data_order {

TEST(Permutation, is_a_bijection) {
  for (int64_t n : {1, 2, 3, 4, 5, 16, 17, 1000, 4096, 5000})
    for (uint64_t key : {0, 1, 99}) {
      Permutation p(n, key);
      std::vector<bool> seen(static_cast<size_t>(n));
      for (int64_t i = 0; i < n; ++i) {
        int64_t j = p(i);
        ASSERT_TRUE(j >= 0 && j < n && !seen[static_cast<size_t>(j)]) << n << " " << i;
        seen[static_cast<size_t>(j)] = true;
      }
    }
}

TEST(Permutation, differs_by_key_and_repeats) {
  int same = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    same += Permutation(1000, 1)(i) == Permutation(1000, 2)(i);
    EXPECT_EQ(Permutation(1000, 1)(i), Permutation(1000, 1)(i));
  }
  EXPECT_LT(same, 20);
}

// Fixed numbers: a resumed run of a later version must see the same order.
TEST(Permutation, is_for_ever) {
  Permutation p(10, 42);
  std::vector<int64_t> order;
  for (int64_t i = 0; i < 10; ++i) order.push_back(p(i));
  EXPECT_EQ(order, (std::vector<int64_t>{8, 9, 2, 3, 5, 6, 4, 7, 0, 1}));
}

TEST(Permutation, spreads) {
  // Over many keys each value takes each position about equally often: 3 standard deviations of a binomial, squared and
  // summed.
  constexpr int n = 6, keys = 6000;
  int count[n][n] = {};
  for (uint64_t key = 0; key < keys; ++key)
    for (int i = 0; i < n; ++i) ++count[i][Permutation(n, key)(i)];
  double chi = 0, want = keys / double(n);
  for (auto& row : count)
    for (int c : row) chi += (c - want) * (c - want) / want;
  EXPECT_LT(chi, 25 + 5 * 7.1);  // mean 25, deviation sqrt(50)
}

TEST(Permutation, very_large) {
  Permutation p(int64_t{1} << 62, 5);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 1000; ++i) seen.insert(p((int64_t{1} << 62) - 1 - i));
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_GT(*seen.rbegin(), int64_t{1} << 60);
}

TEST(Blend, honours_weights_everywhere) {
  std::vector<double> weights{1, 0.3, 2.5, 0.01};
  double sum = 3.81;
  Blend blend(weights);
  std::vector<int64_t> count(4);
  for (int64_t i = 0; i < 200000; ++i) {
    auto at = blend(i);
    EXPECT_EQ(at.index, count[static_cast<size_t>(at.source)]++);  // each source gives its samples in order, none twice
    for (size_t k = 0; k < 4; ++k)  // never further than a few samples from the exact share (and rounding of shares)
      ASSERT_NEAR(static_cast<double>(count[k]), weights[k] / sum * static_cast<double>(i + 1),
                  4 + static_cast<double>(i) / 65536)
          << i << " " << k;
  }
}

TEST(Blend, random_access) {
  Blend blend(std::vector<double>{3, 1});
  int64_t period = 65536, n = 0;
  for (int64_t i = 5 * period; i < 5 * period + 1000; ++i) {
    auto at = blend(i);
    if (at.source == 1) {
      EXPECT_EQ(at.index, 5 * period / 4 + n++);
    }
  }
  EXPECT_EQ(n, 250);
}

TEST(Blend, counts_what_was_taken) {
  Blend blend(std::vector<double>{1, 0.3, 2.5});
  std::vector<int64_t> count(3);
  for (int64_t i = 0; i < 200000; ++i) {
    for (int64_t k = 0; k < 3 && i % 9973 == 0; ++k) {
      ASSERT_EQ(blend.taken(k, i), count[static_cast<size_t>(k)]) << i << " " << k;
    }
    ++count[static_cast<size_t>(blend(i).source)];
  }
}

TEST(Blend, refuses_what_is_no_weight) {
  EXPECT_THROW(Blend(std::vector<double>{}), Error);
  EXPECT_THROW(Blend(std::vector<double>{1, 0}), Error);
  EXPECT_THROW(Blend(std::vector<double>{1, -1}), Error);
  EXPECT_THROW(Blend(std::vector<double>{1, 1e-9}), Error);
}

}  // namespace test_data_order
}  // namespace ravine
