// Processors of logits against Transformers' own, recorded by tools/golden/make_gen.py and make_warpers.py.
#include "infer/processors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>

#include "base/parallel.h"
#include "files/safetensors.h"
#include "infer/sampler.h"
#include "tests/unit/log_probability.h"

namespace ravine {
namespace test_infer_processors {

template <class T>
std::vector<T> read(const SafetensorsReader& file, const std::string& name) {
  auto bytes = file.bytes(file.tensor(name));
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

// "top_p_0.9" as settings. Alone, each acts as the whole chain with the others off.
Processing settings_of(const std::string& name) {
  Processing s;
  if (name == "all") return {1.3, 2, 0.7, 20, 0.9};
  if (name == "none") return s;
  size_t cut = name.rfind('_');
  double value = std::stod(name.substr(cut + 1));
  std::string kind = name.substr(0, cut);
  if (kind == "temperature")
    s.temperature = value;
  else if (kind == "top_k")
    s.top_k = static_cast<int64_t>(value);
  else if (kind == "top_p")
    s.top_p = value;
  else if (kind == "repetition_penalty")
    s.repetition_penalty = value;
  else if (kind == "no_repeat_ngram")
    s.no_repeat_ngram = static_cast<int64_t>(value);
  else if (kind == "min_p")
    s.min_p = value;
  else if (kind == "typical_p")
    s.typical_p = value;
  else if (kind == "bias")
    s.bias = {{3, 2.5}, {17, -4}, {40, 100}};
  else if (kind == "both")
    s.top_k = 20, s.min_p = 0.05, s.typical_p = 0.9;
  else
    ADD_FAILURE() << "unknown processor " << name;
  return s;
}

class Recorded : public testing::TestWithParam<std::string> {};

TEST_P(Recorded, Distributions) {
  SafetensorsReader file(RAVINE_SOURCE_DIR "/tests/golden/gen_" + GetParam() + ".safetensors");
  size_t rows = static_cast<size_t>(file.tensor("logits").shape[0]),
         vocabulary = static_cast<size_t>(file.tensor("logits").shape[1]);
  auto logits = read<float>(file, "logits");
  auto prompts = read<int64_t>(file, "prompts");
  size_t length = prompts.size() / rows;
  int compared = 0;
  for (const TensorInfo& t : file.tensors()) {
    if (!t.name.starts_with("probs.")) continue;
    ++compared;
    std::string name = t.name.substr(6);
    auto expected = read<float>(file, t.name);
    for (size_t r = 0; r < rows; ++r) {
      std::vector<int32_t> context(prompts.begin() + static_cast<ptrdiff_t>(r * length),
                                   prompts.begin() + static_cast<ptrdiff_t>((r + 1) * length));
      std::vector<float> scores(logits.begin() + static_cast<ptrdiff_t>(r * vocabulary),
                                logits.begin() + static_cast<ptrdiff_t>((r + 1) * vocabulary));
      process(scores, context, settings_of(name), true);
      if (std::all_of(scores.begin(), scores.end(), [](float s) { return std::isinf(s); })) continue;
      softmax(scores);
      auto want = std::span(expected).subspan(r * vocabulary, vocabulary);
      if (GetParam() == "ties" &&
          (name.starts_with("top_p") || name == "all")) {  // which of equals goes first, torch.sort leaves open
        std::sort(scores.begin(), scores.end());
        std::sort(want.begin(), want.end());
      }
      for (size_t i = 0; i < vocabulary; ++i) {
        float p = scores[i], q = want[i];
        ASSERT_EQ(p == 0, q == 0) << name << ", row " << r << ", token " << i << ": " << p << " and " << q;
        // Two sums of V terms in any order, two exponentials and divisions of a few epsilons.
        double bound = (static_cast<double>(vocabulary) + 8) * std::numeric_limits<float>::epsilon() * q +
                       std::numeric_limits<float>::min();
        ASSERT_NEAR(p, q, bound) << name << ", row " << r << ", token " << i;
      }
    }
  }
  EXPECT_GE(compared, 7);
}

INSTANTIATE_TEST_SUITE_P(Models, Recorded,
                         testing::Values("ties", "warpers", "llama-mha", "llama-gqa-tied", "llama31", "llama-linear-hd"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Processors, WarpersActOnlyWhereTokensAreDrawn) {
  std::vector<float> scores = {1, 2, 3, 4}, same = scores;
  process(scores, {}, {1, 0, 0.5, 1, 0.1}, false);
  EXPECT_EQ(scores, same);
  process(scores, {}, {1, 0, 0.5, 1, 0.1}, true);
  EXPECT_EQ(scores[3], 8);
  EXPECT_EQ(scores[2], -INFINITY);
}

// OpenAI's formula: logit - n * frequency - (n > 0) * presence, n counted in what the model has written.
TEST(Processors, PenaltiesOfFrequencyCountWhatWasWritten) {
  const std::vector<int32_t> context = {3, 3, 0, 1, 0, 0};  // the first two are the prompt
  std::vector<float> scores = {4, 4, 4, 4};
  Processing s;
  s.frequency_penalty = 0.5, s.presence_penalty = 0.25;
  process(scores, context, s, false, 2);
  EXPECT_EQ(scores, (std::vector<float>{2.25, 3.25, 4, 4}));
  EXPECT_TRUE(changes_best(s) && !changes_best({}));
}

TEST(Processors, RepetitionCountsOncePerToken) {
  std::vector<float> scores = {2, -2, 0, 5};
  std::vector<int32_t> context = {0, 0, 0, 1, 2, 1};
  penalize_repetition(scores, context, 2);
  EXPECT_EQ(scores, (std::vector<float>{1, -4, 0, 5}));
}

TEST(Processors, TopPKeepsTheHigherIdsAmongEquals) {
  std::vector<float> scores(4, 1.0f);
  keep_top_p(scores, 0.5);
  EXPECT_EQ(scores, (std::vector<float>{-INFINITY, -INFINITY, 1, 1}));
}

TEST(Processors, SomeAreKeptWhateverTheirProbability) {
  std::vector<float> scores = {0, -10, -20, -30};
  keep_top_p(scores, 0.1, 2);
  EXPECT_EQ(scores, (std::vector<float>{0, -10, -INFINITY, -INFINITY}));
  scores = {0, -10, -20, -30};
  keep_top_k(scores, 1, 3);
  EXPECT_EQ(scores, (std::vector<float>{0, -10, -20, -INFINITY}));
  scores = {0, -10, -20, -30};
  process(scores, {}, {.top_k = 1, .top_p = 0.1, .least_kept = 3}, true);
  EXPECT_EQ(scores, (std::vector<float>{0, -10, -20, -INFINITY})) << "as the whole chain";
}

TEST(Sampler, GreedyTakesTheFirstMaximum) {
  EXPECT_EQ(choose_best(std::vector<float>{1, 3, 3, 2}), 1);
  EXPECT_EQ(choose_best(std::vector<float>{-INFINITY, -5, -INFINITY}), 1);
  EXPECT_THROW(choose_best(std::vector<float>{-INFINITY, -INFINITY}), Error);
}

TEST(Sampler, DrawsFollowTheDistribution) {
  std::vector<float> scores = {0, std::log(2.0f), -INFINITY, std::log(5.0f)};
  const double p[] = {0.125, 0.25, 0, 0.625};
  constexpr int kDraws = 40000;
  std::array<int, 4> count{};
  for (int i = 0; i < kDraws; ++i)
    ++count[static_cast<size_t>(choose_at_random(scores, 7, static_cast<uint64_t>(i / 200), static_cast<uint64_t>(i % 200)))];
  EXPECT_EQ(count[2], 0);
  double chi = 0;
  for (size_t i : {0u, 1u, 3u}) chi += std::pow(count[i] - kDraws * p[i], 2) / (kDraws * p[i]);
  EXPECT_LT(chi, 18.4);  // two degrees of freedom, one in ten thousand; the draws are always the same
}

// Pearson's chi-square of counts against n p, in deviations from its mean; tokens expected less than five times are
// taken together. With k degrees of freedom the mean is k and the variance 2 k.
double deviations(const std::vector<int64_t>& count, const std::vector<double>& p, int64_t n) {
  double chi = 0, rare = 0, bins = 0;
  int64_t rare_count = 0;
  auto add = [&](int64_t seen, double expected) {
    chi += std::pow(static_cast<double>(seen) - expected, 2) / expected, ++bins;
  };
  for (size_t i = 0; i < p.size(); ++i) {
    const double expected = static_cast<double>(n) * p[i];
    if (expected >= 5)
      add(count[i], expected);
    else
      rare += expected, rare_count += count[i];
  }
  if (rare >= 5) add(rare_count, rare);
  return (chi - (bins - 1)) / std::sqrt(2 * (bins - 1));
}

// Scores of a whole vocabulary, as steep as words are (Zipf), its likely tokens all over it.
TEST(Sampler, DrawsOfAWholeVocabularyFollowTheDistribution) {
  constexpr int64_t kVocabulary = 4099, kDraws = 100000;
  std::vector<float> scores(kVocabulary);
  for (int64_t i = 0; i < kVocabulary; ++i)
    scores[static_cast<size_t>(i * 1733 % kVocabulary)] = -std::log(static_cast<float>(i + 1));
  auto probabilities = [&](double temperature) {
    std::vector<double> p;
    double sum = 0;
    for (float s : scores) p.push_back(std::exp(s / temperature)), sum += p.back();
    for (double& x : p) x /= sum;
    return p;
  };
  std::vector<int32_t> drawn(kDraws);
  parallel_for(kDraws, [&](int64_t i) {
    drawn[static_cast<size_t>(i)] =
        choose_at_random(scores, 11, static_cast<uint64_t>(i / 100), static_cast<uint64_t>(i % 100));
  });
  std::vector<int64_t> count(kVocabulary);
  for (int32_t id : drawn) ++count[static_cast<size_t>(id)];
  EXPECT_LT(deviations(count, probabilities(1), kDraws), 4);
  for (double other : {0.97, 1.03}) EXPECT_GT(deviations(count, probabilities(other), kDraws), 4) << "the test sees " << other;
}

TEST(Sampler, DrawDependsOnSeedSequenceAndPosition) {
  std::vector<float> flat(1000, 0.0f);
  int32_t base = choose_at_random(flat, 1, 2, 3);
  EXPECT_EQ(choose_at_random(flat, 1, 2, 3), base);
  EXPECT_NE(choose_at_random(flat, 2, 2, 3), base);
  EXPECT_NE(choose_at_random(flat, 1, 3, 3), base);
  EXPECT_NE(choose_at_random(flat, 1, 2, 4), base);
}

TEST(Sampler, LogProbability) {
  std::vector<float> logits = {1000, 1000, -1000};
  EXPECT_DOUBLE_EQ(log_probability(logits, 0), std::log(0.5));
  EXPECT_DOUBLE_EQ(log_probability(logits, 2), -2000 + std::log(0.5));
}

}  // namespace test_infer_processors
}  // namespace ravine
