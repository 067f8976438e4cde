#include "data/loader.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

#include "base/error.h"

namespace ravine {
namespace {

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

}  // namespace
}  // namespace ravine
