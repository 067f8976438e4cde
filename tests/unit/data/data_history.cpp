// The samples of a run over its resumes: nothing twice and nothing lost, for any batch, weights and ranks.
#include "data/history.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "data/loader.h"
#include "data/mixed_dataset.h"
#include "tests/unit/data_help.h"

namespace ravine {
namespace test_data_history {

// Sample i of a stream: its tag and i.
class Tagged final : public SampleStream {
 public:
  Tagged(int32_t tag, int64_t count) : tag_(tag), count_(count) {}
  int64_t count() const override { return count_; }
  Sample sample(int64_t i) const override {
    auto n = static_cast<int32_t>(i);
    return {{tag_, n}, {n, kIgnored}, {0, 1}, {{0, 2}}};
  }
  std::string origin(int64_t) const override { return std::to_string(tag_); }
  int64_t token_count() const override { return 2 * count_; }

 private:
  int32_t tag_;
  int64_t count_;
};

struct Source {
  const char* name;
  double weight;
  int32_t tag;
  int64_t count;
};

std::unique_ptr<MixedDataset> mixed(const std::vector<Source>& sources, bool blend = true) {
  std::vector<MixedStream> streams;
  for (const Source& s : sources) streams.push_back({s.name, s.weight, std::make_unique<Tagged>(s.tag, s.count)});
  return std::make_unique<MixedDataset>(std::move(streams), blend, 42, 2);
}

// Takes steps [from, to) as a run does that resumed with this history.
void take(MixedDataset& data, DataHistory& history, int64_t from, int64_t to, int64_t batch,
          std::map<int32_t, std::vector<int32_t>>& seen) {
  data.note_sources(history, from, batch);
  data.follow(history);
  LoaderOptions o{.global_batch = batch, .micro_batch = 1, .history = history};
  for (int64_t s = from; s < to; ++s)
    for (const MicroBatch& m : make_step(data, o, s).micro) seen[m.ids[0]].push_back(m.ids[1]);
}

TEST(DataHistory, steps_and_segments) {
  DataHistory h;
  EXPECT_TRUE(h.empty());
  h.change(0, 8, {"a"}, {1});
  h.change(10, 8, {"a"}, {1});  // as it was
  EXPECT_EQ(h.segments().size(), 1u);
  h.change(10, 4, {"a"}, {1});
  h.change(20, 4, {"a", "b", "a"}, {1, 2, 0.5});  // the second a is another source
  EXPECT_EQ(h.first_sample(3), 24);
  EXPECT_EQ(h.first_sample(10), 80);
  EXPECT_EQ(h.first_sample(12), 88);
  EXPECT_EQ(h.first_sample(21), 124);
  EXPECT_EQ(h.global_batch(9), 8);
  EXPECT_EQ(h.global_batch(10), 4);
  EXPECT_EQ(h.sources(), (std::vector<std::string>{"a", "b", "a"}));
  EXPECT_EQ(h.numbers({"b", "a", "a", "a", "c"}), (std::vector<int64_t>{1, 0, 2, -1, -1}));
  EXPECT_EQ(DataHistory::from_json(h.json(), "x").json(), h.json());
  DataHistory back = h;
  back.change(10, 16, {"a"}, {1});  // resumed from step 10 once more: what came after is gone
  EXPECT_EQ(back.segments().size(), 2u);
  EXPECT_EQ(back.first_sample(11), 96);
}

TEST(DataHistory, damaged_ones_are_refused) {
  DataHistory h;
  h.change(0, 8, {"a", "b"}, {1, 2});
  h.change(5, 4, {"a", "b"}, {1, 2});
  for (auto damage : std::vector<std::function<void(Json&)>>{
           [](Json& j) { j.erase("sources"); }, [](Json& j) { j["segments"][0]["global_batch"] = 0; },
           [](Json& j) { j["segments"][1]["step"] = 0; }, [](Json& j) { j["segments"][1]["sample"] = "x"; },
           [](Json& j) {
             j["segments"][0]["weights"] = {1, 2, 3};
           },
           [](Json& j) {
             j["segments"][0]["weights"] = {0, 0};
           }}) {
    Json j = h.json();
    damage(j);
    EXPECT_USER_ERROR(DataHistory::from_json(j, "checkpoint of step 5"), "(checkpoint of step 5");
  }
}

TEST(DataHistory, weights_change_without_repeating_or_losing_samples) {
  // 1000 samples each: nothing may come twice before a source has been gone through.
  DataHistory history;
  std::map<int32_t, std::vector<int32_t>> seen;
  auto first = mixed({{"a", 3, 1, 1000}, {"b", 1, 2, 1000}});
  take(*first, history, 0, 50, 8, seen);
  history = DataHistory::from_json(history.json(), "");
  // Another order, a new source, other weights.
  auto second = mixed({{"b", 2, 2, 1000}, {"a", 1, 1, 1000}, {"c", 1, 3, 1000}});
  take(*second, history, 50, 80, 16, seen);
  auto third = mixed({{"a", 1, 1, 1000}});  // alone
  take(*third, history, 80, 90, 16, seen);
  auto fourth = mixed({{"a", 1, 1, 1000}, {"b", 1, 2, 1000}}, true);
  take(*fourth, history, 90, 100, 16, seen);
  EXPECT_EQ(seen[1].size(), 300u + 120 + 160 + 80);
  EXPECT_EQ(seen[2].size(), 100u + 240 + 80);
  EXPECT_EQ(seen[3].size(), 120u);
  for (const auto& [tag, samples] : seen)
    EXPECT_EQ(std::set<int32_t>(samples.begin(), samples.end()).size(), samples.size()) << tag;
  // Each source gives its samples in the order it has when it is alone: none was passed over.
  for (const auto& [tag, samples] : seen) {
    std::map<int32_t, std::vector<int32_t>> alone;
    DataHistory h;
    std::vector<Source> all{{"a", 1, 1, 1000}, {"b", 1, 2, 1000}, {"c", 1, 3, 1000}};
    h.change(0, 1, {"a", "b", "c"}, {1, 1, 1});
    auto one = mixed({all[static_cast<size_t>(tag) - 1]});
    h = DataHistory::from_json({{"sources", {"a", "b", "c"}},
                                {"segments",
                                 {{{"step", 0},
                                   {"sample", 0},
                                   {"global_batch", 1},
                                   {"weights", {tag == 1 ? 1 : 0, tag == 2 ? 1 : 0, tag == 3 ? 1 : 0}}}}}},
                               "");
    take(*one, h, 0, static_cast<int64_t>(samples.size()), 1, alone);
    EXPECT_EQ(samples, alone[tag]) << tag;
  }
}

TEST(DataHistory, resume_in_the_middle_of_a_blend) {
  std::map<int32_t, std::vector<int32_t>> whole, parts;
  DataHistory a, b;
  std::vector<Source> sources{{"a", 3, 1, 70}, {"b", 1.5, 2, 30}, {"c", 0.1, 3, 500}};  // some are read more than once
  take(*mixed(sources), a, 0, 60, 8, whole);
  for (int64_t step = 0; step < 60; step += 7) take(*mixed(sources), b, step, std::min<int64_t>(60, step + 7), 8, parts);
  EXPECT_EQ(whole, parts);
  EXPECT_EQ(b.segments().size(), 1u);
  EXPECT_LT(b.json().dump().size(), 500u);
}

TEST(DataHistory, samples_of_a_source_that_is_gone) {
  DataHistory h;
  auto both = mixed({{"a", 3, 1, 100}, {"b", 1, 2, 100}});
  both->note_sources(h, 0, 8);
  auto one = mixed({{"a", 1, 1, 100}});
  one->note_sources(h, 5, 8);
  one->follow(h);
  EXPECT_USER_ERROR(
      [&] {
        for (int64_t i = 0; i < 40; ++i) one->sample(i);
      }(),
      "a source of these samples is gone (b)");
  for (int64_t i = 40; i < 80; ++i) EXPECT_EQ(one->sample(i).ids[0], 1);
}

TEST(Loader, ranks_share_the_micro_batches_of_a_step_in_order) {
  auto data = mixed({{"a", 3, 1, 100}, {"b", 1, 2, 100}});
  LoaderOptions o{.global_batch = 24, .micro_batch = 2, .skip_steps = {3}};
  for (int64_t step : {0, 1, 2, 9}) {
    StepBatches all = make_step(*data, o, step);
    for (int64_t ranks : {1, 2, 3, 4, 6, 12}) {
      o.ranks = ranks;
      std::vector<int64_t> sequences, want;
      int64_t valid = 0;
      for (o.rank = 0; o.rank < ranks; ++o.rank) {
        StepBatches mine = make_step(*data, o, step);
        EXPECT_EQ(mine.skipped, step == 2);
        EXPECT_EQ(static_cast<int64_t>(mine.micro.size()), step == 2 ? 0 : 12 / ranks);
        valid += mine.valid_tokens;
        for (const MicroBatch& m : mine.micro)
          sequences.insert(sequences.end(), m.sequence_index.begin(), m.sequence_index.end());
      }
      for (const MicroBatch& m : all.micro) want.insert(want.end(), m.sequence_index.begin(), m.sequence_index.end());
      EXPECT_EQ(sequences, want);
      EXPECT_EQ(valid, all.valid_tokens);
    }
    o.rank = 0, o.ranks = 1;
  }
  o.ranks = 5;
  EXPECT_THROW(Loader(*data, o), Error);
  o.ranks = 2, o.rank = 2;
  EXPECT_THROW(Loader(*data, o), Error);
}

TEST(DataHistory, a_run_that_begins_late_and_blends_that_come_and_go) {
  DataHistory h;
  h.change(7, 8, {"a"}, {});  // the checkpoint of a run without a history
  EXPECT_EQ(h.first_sample(7), 56);
  EXPECT_EQ(h.first_sample(9), 72);
  EXPECT_THROW(h.first_sample(6), Error);
  h.change(9, 8, {"b", "a"}, {3, 1});
  EXPECT_EQ(h.segments().size(), 2u);
  EXPECT_EQ(h.sources(), (std::vector<std::string>{"a", "b"})) << "in the order they were met";
  EXPECT_EQ(h.segments()[1].weights, (std::vector<double>{1, 3}));
  h.change(11, 8, {"a", "b"}, {1, 3});  // the same under another order
  EXPECT_EQ(h.segments().size(), 2u);
  h.change(12, 8, {"c"}, {2});
  EXPECT_EQ(h.segments()[2].weights, (std::vector<double>{0, 0, 2}));
  h.change(13, 8, {"c"}, {});
  EXPECT_EQ(h.segments().size(), 4u) << "a blend that ends is a change";
  EXPECT_EQ(h.global_batch(100), 8);
  EXPECT_THROW(h.change(20, 0, {"a"}, {1}), Error);
  EXPECT_THROW(h.change(20, 8, {"a"}, {1, 2}), Error);
  DataHistory twice;  // resumed twice from one checkpoint: the later replaces
  twice.change(0, 8, {"a"}, {1});
  twice.change(5, 4, {"a"}, {1});
  twice.change(5, 2, {"a"}, {1});
  EXPECT_EQ(twice.segments().size(), 2u);
  EXPECT_EQ(twice.global_batch(5), 2);
  EXPECT_EQ(twice.first_sample(6), 42);
  twice.change(5, 8, {"a"}, {1});
  EXPECT_EQ(twice.segments().size(), 1u) << "as it was before";
}

// A stream alone is a blend of one; several without weights are one row, unless the run once blended them.
TEST(DataHistory, which_sources_are_different) {
  auto weights = [](const std::vector<Source>& sources, bool blend, DataHistory h = {}) {
    mixed(sources, blend)->note_sources(h, h.empty() ? 0 : 5, 8);
    return h.segments().back().weights;
  };
  const std::vector<Source> one{{"a", 1, 1, 10}}, two{{"a", 1, 1, 10}, {"b", 1, 2, 10}},
      uneven{{"a", 3, 1, 10}, {"b", 1, 2, 10}};
  EXPECT_EQ(weights(one, false), std::vector<double>{1});
  EXPECT_EQ(weights(two, false), std::vector<double>{});
  EXPECT_EQ(weights(uneven, true), (std::vector<double>{3, 1}));
  DataHistory blended;
  blended.change(0, 8, {"a", "b"}, {3, 1});
  EXPECT_EQ(weights(two, false, blended), (std::vector<double>{1, 1}));
  DataHistory plain;
  plain.change(0, 8, {"a", "b"}, {});
  EXPECT_EQ(weights(two, false, plain), std::vector<double>{});
  // Without a blend every sample comes once a pass, of all streams together.
  auto row = mixed(two, false);
  std::set<std::pair<int32_t, int32_t>> seen;
  for (int64_t i = 0; i < 20; ++i) seen.insert({row->sample(i).ids[0], row->sample(i).ids[1]});
  EXPECT_EQ(seen.size(), 20u);
  EXPECT_EQ(row->sample_count(), 20);
  EXPECT_EQ(row->token_count(), 40);
  EXPECT_THROW(row->sample(-1), Error);
}

}  // namespace test_data_history
}  // namespace ravine
