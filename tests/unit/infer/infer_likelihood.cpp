// Log-likelihoods of continuations against running each context and continuation whole, without a cache.
#include <gtest/gtest.h>

#include <cmath>

#include "infer/likelihood.h"
#include "tests/unit/log_probability.h"
#include "tests/unit/small_models.h"

namespace ravine {
namespace test_infer_likelihood {

// Computes one pair like the harness: tokens that do not fit are dropped from the left of the context.
double plain_likelihood(const LoadedModel& s, const std::vector<int32_t>& context, const std::vector<int32_t>& targets,
                        int64_t positions) {
  std::vector<int32_t> all = context;
  all.insert(all.end(), targets.begin(), targets.end());
  if (const auto most = static_cast<size_t>(positions + 1); all.size() > most)
    all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(most));
  const std::vector<std::vector<float>> logits = all_logits(s, {all.begin(), all.end() - 1});
  double sum = 0;
  for (size_t i = 0; i < targets.size(); ++i) {
    const size_t position = all.size() - targets.size() + i;
    sum += log_probability(logits[position - 1], all[position]);
  }
  return sum;
}

std::vector<int32_t> tokens_from(int32_t first, int64_t count) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(static_cast<int32_t>((first + i * 7) % 61));
  return ids;
}

// Items as in benchmarks: two groups with a long common beginning, choices of one token and of several, a
// choice that is the beginning of another. One item is alone, one does not fit.
std::vector<Continuations> likely_items() {
  std::vector<Continuations> items;
  for (const int32_t group : {1, 30})
    for (int32_t i = 0; i < 5; ++i) {
      Continuations c{tokens_from(group, 24), {{5}, {6}, {7}, {8}}};
      const std::vector<int32_t> question = tokens_from(i * 11 + 2, 3 + i);
      c.context.insert(c.context.end(), question.begin(), question.end());
      if (i % 2 == 1) c.continuations = {{5, 6, 7}, {5, 6}, {9, 1, 2, 3}, {5}};
      items.push_back(std::move(c));
    }
  items.push_back({{17}, {{3}, {4, 4}}});
  items.push_back({tokens_from(4, 60), {tokens_from(9, 12), {2}, tokens_from(9, 3)}});
  // Two follow other tokens.
  items.push_back({tokens_from(50, 9), {{2}, {1}, {3, 4}}, {tokens_from(50, 8), {}, {7, 7, 3}}});
  return items;
}

TEST(Likelihood, EqualsEachPairRunWhole) {
  constexpr int64_t kPositions = 64;
  const LoadedModel s = session_of(small_llama(kPositions));
  const std::vector<Continuations> items = likely_items();
  for (const int64_t batch : {1, 3, 16})
    for (const int64_t step : {1, 10, 1024}) {
      std::vector<size_t> order;
      LikelihoodEvents events;
      events.finished = [&](size_t i, const Likelihoods&) { order.push_back(i); };
      const std::vector<Likelihoods> got = likelihoods(s, items, {.batch = batch, .step_tokens = step}, events);
      ASSERT_EQ(got.size(), items.size());
      for (size_t i = 0; i < items.size(); ++i) {
        EXPECT_EQ(order.at(i), i);
        ASSERT_EQ(got[i].logprobs.size(), items[i].continuations.size());
        for (size_t c = 0; c < got[i].logprobs.size(); ++c) {
          const auto& targets = items[i].continuations[c];
          std::vector<int32_t> context = items[i].context;
          if (!items[i].contexts.empty() && !items[i].contexts[c].empty()) context = items[i].contexts[c];
          const double want = plain_likelihood(s, context, targets, kPositions);
          // The judge's logits are rounded to f32 (2^-24 of their size, below 64 here), for each token.
          EXPECT_NEAR(got[i].logprobs[c], want, static_cast<double>(1 + targets.size()) * 64 * 0x1p-23) << i << " " << c;
        }
        if (items[i].context.size() < 60 && items[i].contexts.empty()) {
          const std::vector<float> last = all_logits(s, items[i].context).back();
          EXPECT_EQ(got[i].first, std::max_element(last.begin(), last.end()) - last.begin()) << i;
        }
      }
    }
}

// A common beginning is read once: the model reads far fewer tokens than the pairs have.
TEST(Likelihood, ReadsCommonBeginningsOnce) {
  const LoadedModel s = session_of(small_llama(64));
  struct Count : Observer {
    void after(const CallInfo& info) override {
      if (info.op != std::string_view("embedding")) return;
      int64_t ids = 0;
      bool table = false;  // else rows of hidden states are looked up
      for (const NamedView& t : info.tensors) {
        if (t.name == std::string_view("ids")) ids = t.view.count();
        if (t.name == std::string_view("weight")) table = t.view.rows() == 61;
      }
      if (table) tokens += ids;
    }
    int64_t tokens = 0;
  } seen;
  std::vector<Continuations> items;
  for (int32_t i = 0; i < 8; ++i) {
    Continuations c{tokens_from(1, 40), {{5}, {6}, {7}, {8}}};
    c.context.push_back(i);
    items.push_back(std::move(c));
  }
  likelihoods(s, items, {.batch = 4, .observer = &seen});
  EXPECT_EQ(seen.tokens, 40 + 8);
}

TEST(Likelihood, StopsAndRefuses) {
  const LoadedModel s = session_of(small_llama(16));
  int polls = 0;
  LikelihoodEvents events;
  events.stop = [&] { return ++polls > 1; };
  const std::vector<Likelihoods> got = likelihoods(s, {{{1}, {{2}}}, {{3}, {{4}}}}, {.batch = 1}, events);
  EXPECT_EQ(got[0].logprobs.size(), 1U);
  EXPECT_TRUE(got[1].logprobs.empty());
  EXPECT_THROW(likelihoods(s, {{{61}, {{2}}}}, {}), UserError);
  EXPECT_THROW(likelihoods(s, {{{}, {{2}}}}, {}), UserError);
  EXPECT_NE(message_of<UserError>([&] {
              likelihoods(s, {{{1}, {{2}, {}}}}, {});
            }).find("a continuation without tokens (items, item 1)"),
            std::string::npos);
  EXPECT_THROW(likelihoods(s, {{{1}, {tokens_from(1, 17)}}}, {}), UserError);
  EXPECT_NO_THROW(likelihoods(s, {{{1}, {tokens_from(1, 16)}}}, {}));
}

}  // namespace test_infer_likelihood
}  // namespace ravine
