#include "data/loader.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

#include "base/error.h"

namespace ravine {
namespace test_data_loader {

// Sample i: ids i, i+1, i+2; its last column is padding when i is odd.
class Counting final : public Dataset {
 public:
  explicit Counting(int64_t fails_at = -1) : fails_at_(fails_at) {}
  int64_t sample_count() const override { return 1000; }
  int64_t columns() const override { return 3; }
  int64_t token_count() const override { return 3000; }
  Sample sample(int64_t i) const override {
    require(i != fails_at_, "sample {} is broken", i);
    auto v = static_cast<int32_t>(i);
    Sample s{{v, v + 1, v + 2}, {v + 1, v + 2, kIgnored}, {0, 1, 2}, {{0, v % 2 ? 2 : 3}}};
    return s;
  }
  std::string origin(int64_t) const override { return ""; }

 private:
  int64_t fails_at_;
};

bool same(const MicroBatch& a, const MicroBatch& b) {
  return a.rows == b.rows && a.columns == b.columns && a.ids == b.ids && a.labels == b.labels && a.positions == b.positions &&
         a.segments == b.segments && a.sequence_index == b.sequence_index && a.valid_tokens == b.valid_tokens;
}

TEST(Loader, micro_batches_are_rows_side_by_side) {
  MicroBatch b = make_micro_batch(Counting(), 7, 2);
  EXPECT_EQ(b.ids, (std::vector<int32_t>{7, 8, 9, 8, 9, 10}));
  EXPECT_EQ(b.positions, (std::vector<int32_t>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(b.segments, (std::vector<TokenSpan>{{0, 2}, {3, 3}}));
  EXPECT_EQ(b.sequence_index, (std::vector<int64_t>{7, 8}));
  EXPECT_EQ(b.valid_tokens, 4);
}

TEST(Loader, steps_take_consecutive_samples) {
  Counting data;
  for (int64_t prefetch : {0, 1, 4, 50}) {
    Loader loader(data, {.global_batch = 6, .micro_batch = 2, .prefetch = prefetch});
    int64_t next = 0;
    for (int64_t step = 0; step < 20; ++step) {
      StepBatches s = loader.next();
      EXPECT_EQ(s.step, step);
      EXPECT_EQ(s.valid_tokens, 12);
      ASSERT_EQ(s.micro.size(), 3u);
      for (const auto& m : s.micro)
        for (int64_t i : m.sequence_index) EXPECT_EQ(i, next++);
    }
  }
}

TEST(Loader, ranks_share_the_micro_batches_of_a_step) {
  Counting data;
  std::vector<int64_t> run[2], turns[2];
  for (int64_t rank : {0, 1})
    for (bool round_robin : {false, true}) {
      LoaderOptions options{.global_batch = 8, .micro_batch = 2};
      options.rank = rank;
      options.ranks = 2;
      options.round_robin = round_robin;
      for (const auto& m : make_step(data, options, 1).micro)
        for (int64_t i : m.sequence_index) (round_robin ? turns : run)[rank].push_back(i);
    }
  EXPECT_EQ(run[0], (std::vector<int64_t>{8, 9, 10, 11}));
  EXPECT_EQ(run[1], (std::vector<int64_t>{12, 13, 14, 15}));
  EXPECT_EQ(turns[0], (std::vector<int64_t>{8, 9, 12, 13}));
  EXPECT_EQ(turns[1], (std::vector<int64_t>{10, 11, 14, 15}));
}

TEST(Loader, the_share_of_a_rank_is_what_its_steps_hold) {
  Counting data;
  for (bool turns : {false, true})
    for (int64_t rank : {0, 1}) {
      const LoaderOptions o{.global_batch = 8, .micro_batch = 2, .rank = rank, .ranks = 2, .round_robin = turns};
      const std::vector<int64_t> share = share_of_rank(o, 4);
      EXPECT_EQ(share, turns ? (std::vector<int64_t>{rank, rank + 2}) : (std::vector<int64_t>{2 * rank, 2 * rank + 1}));
      std::vector<int64_t> got;
      for (const MicroBatch& m : make_step(data, o, 0).micro) got.push_back(m.sequence_index[0] / 2);
      EXPECT_EQ(got, share);
    }
}

TEST(Loader, resume_gives_the_same_batches) {
  Counting data;
  LoaderOptions options{.global_batch = 4, .micro_batch = 2, .skip_steps = {6, 9}};
  Loader whole(data, options);
  std::vector<StepBatches> all;
  for (int i = 0; i < 12; ++i) all.push_back(whole.next());
  for (int64_t from : {0, 1, 5, 8}) {
    options.first_step = from;
    Loader resumed(data, options);
    for (int64_t step = from; step < 12; ++step) {
      StepBatches s = resumed.next();
      const StepBatches& w = all[static_cast<size_t>(step)];
      EXPECT_EQ(s.step, w.step);
      EXPECT_EQ(s.skipped, w.skipped);
      ASSERT_EQ(s.micro.size(), w.micro.size());
      for (size_t m = 0; m < s.micro.size(); ++m) EXPECT_TRUE(same(s.micro[m], w.micro[m]));
    }
  }
}

TEST(Loader, skipped_steps_leave_the_others_where_they_were) {
  Counting data;
  Loader plain(data, {.global_batch = 2, .micro_batch = 1});
  Loader skipping(data, {.global_batch = 2, .micro_batch = 1, .skip_steps = {3}});  // counted from 1
  for (int64_t step = 0; step < 6; ++step) {
    StepBatches a = plain.next(), b = skipping.next();
    EXPECT_EQ(b.skipped, step == 2);
    if (b.skipped) {
      EXPECT_TRUE(b.micro.empty());
    } else {
      EXPECT_TRUE(same(a.micro[1], b.micro[1]));
    }
  }
}

TEST(Loader, errors_of_the_thread_come_out_at_their_step) {
  Counting data(9);
  Loader loader(data, {.global_batch = 2, .micro_batch = 1, .prefetch = 2});
  for (int step = 0; step < 4; ++step) EXPECT_NO_THROW(loader.next());
  for (int again = 0; again < 2; ++again) {
    try {
      loader.next();
      FAIL() << "no error";
    } catch (const Error& e) {
      EXPECT_STREQ(e.what(), "sample 9 is broken");
    }
  }
}

TEST(Loader, stops_at_any_moment) {
  Counting data;
  for (int i = 0; i < 50; ++i) {
    Loader loader(data, {.global_batch = 4, .micro_batch = 2, .prefetch = i % 5});
    for (int k = 0; k < i % 4; ++k) loader.next();
  }
}

TEST(Loader, micro_batches_divide_the_batch) {
  Counting data;
  EXPECT_THROW(Loader(data, {.global_batch = 5, .micro_batch = 2}), Error);
}

// A micro batch of a ragged dataset is as wide as its longest row, in multiples of 32 up to the whole width.
class Ragged final : public Dataset {
 public:
  int64_t sample_count() const override { return 1000; }
  int64_t columns() const override { return 80; }
  int64_t token_count() const override { return 1; }
  Sample sample(int64_t i) const override {
    Sample s{std::vector<int32_t>(80, 9), std::vector<int32_t>(80, kIgnored), std::vector<int32_t>(80), {}};
    if (i > 0)
      s.segments = {{0, static_cast<int32_t>(i) / 2},
                    {static_cast<int32_t>(i) / 2, static_cast<int32_t>(i) - static_cast<int32_t>(i) / 2}};
    if (i > 0) s.labels[static_cast<size_t>(i) - 1] = 5;
    std::iota(s.positions.begin(), s.positions.end(), 0);
    return s;
  }
  std::string origin(int64_t) const override { return ""; }
  bool ragged() const override { return true; }
};

TEST(Loader, ragged_rows_are_as_wide_as_the_longest) {
  const Ragged data;
  for (auto [first, rows, columns] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
           {0, 1, 32}, {1, 1, 32}, {32, 1, 32}, {33, 1, 64}, {31, 3, 64}, {64, 1, 64}, {65, 1, 80}, {79, 2, 80}}) {
    const MicroBatch b = make_micro_batch(data, first, rows);
    EXPECT_EQ(b.columns, columns) << first;
    EXPECT_EQ(b.ids.size(), static_cast<size_t>(rows * columns));
    EXPECT_EQ(b.positions.size(), b.ids.size());
    EXPECT_EQ(b.labels.size(), b.ids.size());
    int64_t valid = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t n = first + r;
      EXPECT_EQ(b.positions[static_cast<size_t>(r * columns + columns - 1)], columns - 1);
      if (n == 0) continue;
      ++valid;
      EXPECT_EQ(b.labels[static_cast<size_t>(r * columns + n - 1)], 5);
      EXPECT_EQ(b.segments[static_cast<size_t>(2 * r)],
                (TokenSpan{static_cast<int32_t>(r * columns), static_cast<int32_t>(n / 2)}));
    }
    EXPECT_EQ(b.valid_tokens, valid);
  }
}

TEST(Loader, random_batches_are_whole_and_the_same) {
  EXPECT_THROW(random_micro_batch(1 << 12, 1 << 20, 100), Error) << "segments count tokens in 32 bits";
  const MicroBatch b = random_micro_batch(3, 50, 7), again = random_micro_batch(3, 50, 7);
  EXPECT_TRUE(same(b, again));
  EXPECT_EQ(b.rows, 3);
  EXPECT_EQ(b.columns, 50);
  EXPECT_EQ(b.valid_tokens, 150);
  EXPECT_EQ(b.segments, (std::vector<TokenSpan>{{0, 50}, {50, 50}, {100, 50}}));
  EXPECT_EQ(b.sequence_index, (std::vector<int64_t>{0, 1, 2}));
  std::vector<int> ids(7), labels(7);
  for (size_t i = 0; i < 150; ++i) {
    ASSERT_TRUE(b.ids[i] >= 0 && b.ids[i] < 7 && b.labels[i] >= 0 && b.labels[i] < 7);
    ++ids[static_cast<size_t>(b.ids[i])], ++labels[static_cast<size_t>(b.labels[i])];
    EXPECT_EQ(b.positions[i], static_cast<int32_t>(i % 50));
  }
  for (int n : ids) EXPECT_GT(n, 5);
  for (int n : labels) EXPECT_GT(n, 5);
  EXPECT_FALSE(std::equal(b.ids.begin(), b.ids.begin() + 50, b.ids.begin() + 50)) << "rows differ";
}

// Whole steps: the prefetched ones, one being made, one in use. Each row has ids, labels, positions and its number.
TEST(Loader, bytes_of_what_is_held) {
  const auto one = [](int64_t rows, int64_t columns) {
    return static_cast<int64_t>(sizeof(MicroBatch)) + rows * (8 + 12 * columns);
  };
  EXPECT_EQ(loader_bytes(0, 4, 2, 100), 3 * 4 * one(2, 100));
  EXPECT_EQ(loader_bytes(4, 4, 2, 100), 3 * 4 * one(2, 100));
  EXPECT_EQ(loader_bytes(5, 4, 2, 100), 4 * 4 * one(2, 100));
  EXPECT_EQ(loader_bytes(9, 1, 3, 10), 11 * one(3, 10));
}

// The history says which samples a step takes; round robin and skipped steps stay as they are.
TEST(Loader, a_history_moves_the_samples_of_a_step) {
  Counting data;
  DataHistory h;
  h.change(0, 4, {}, {});
  h.change(3, 8, {}, {});
  LoaderOptions o{.global_batch = 999, .micro_batch = 2, .skip_steps = {5}, .history = h};
  auto samples = [&](int64_t step) {
    std::vector<int64_t> all;
    for (const MicroBatch& m : make_step(data, o, step).micro)
      all.insert(all.end(), m.sequence_index.begin(), m.sequence_index.end());
    return all;
  };
  EXPECT_EQ(samples(2), (std::vector<int64_t>{8, 9, 10, 11}));
  EXPECT_EQ(samples(3), (std::vector<int64_t>{12, 13, 14, 15, 16, 17, 18, 19}));
  EXPECT_TRUE(samples(4).empty());
  EXPECT_EQ(samples(5).front(), 28);
  o.rank = 1, o.ranks = 2, o.round_robin = true;
  EXPECT_EQ(samples(3), (std::vector<int64_t>{14, 15, 18, 19}));
}

}  // namespace test_data_loader
}  // namespace ravine
