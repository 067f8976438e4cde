// Tests of the loss scale step by step: sequences of DeepSpeed's own scaler, if it is installed; worked examples of
// each rule.
#include "step/loss_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "base/error.h"

namespace ravine {
namespace test_step_loss_scale {

using Rule = ScaleRule;

std::vector<double> scales(const LossScaleSettings& s, const std::vector<int>& overflow) {
  LossScale scale(s);
  std::vector<double> out;
  for (int o : overflow) {
    if (!scale.update(o != 0)) {
      out.push_back(0);
      break;
    }
    out.push_back(scale.scale());
  }
  return out;
}

TEST(LossScale, OverflowsUseUpTheHysteresisFirst) {
  LossScaleSettings s{.initial = 16, .window = 3};
  EXPECT_EQ(scales(s, {1, 1, 1, 1, 1}), (std::vector<double>{16, 8, 4, 2, 1}));
  EXPECT_EQ(scales(s, {1, 1, 1, 1, 1, 1}).back(), 0) << "at the smallest scale";
  s.hysteresis = 1;
  EXPECT_EQ(scales(s, {1, 0, 1}), (std::vector<double>{8, 8, 4}));
  s.hysteresis = 2, s.consecutive_hysteresis = true;
  EXPECT_EQ(scales(s, {1, 0, 1, 0, 1, 1}), (std::vector<double>{16, 16, 16, 16, 16, 8})) << "each good step fills it";
  s.least = 3;
  EXPECT_EQ(scales(s, {1, 1, 1, 1, 1}), (std::vector<double>{16, 8, 4, 3, 0}));
}

TEST(LossScale, GrowsByEachRule) {
  LossScaleSettings s{.initial = 4, .window = 3, .hysteresis = 1};
  // it - last - 1 = 0, 1, 2, 3: the fourth good step; after an overflow likewise.
  EXPECT_EQ(scales(s, {0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}), (std::vector<double>{4, 4, 4, 8, 8, 8, 16, 8, 8, 8, 8, 16}));
  s.rule = Rule::deepspeed_013;
  EXPECT_EQ(scales(s, {0, 0, 0, 0, 1, 0, 0, 0}), (std::vector<double>{4, 4, 8, 8, 4, 4, 4, 8}));
  s.rule = Rule::mindformers;
  EXPECT_EQ(scales(s, {0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0}), (std::vector<double>{4, 4, 8, 8, 4, 4, 4, 8, 8, 8, 16}));
  EXPECT_EQ(scales(s, {1, 1, 1, 1}), (std::vector<double>{2, 1, 1, 1})) << "no end at the smallest scale";
  s.fixed = true;
  EXPECT_EQ(scales(s, {1, 0, 0, 0}), (std::vector<double>{4, 4, 4, 4}));
}

// Sequences by the formulas of mindformers/wrapper/adaptive_loss_scale.py, worked out apart from this program.
TEST(LossScale, MovesItsWindow) {
  EXPECT_EQ(window_list(1000, 20), (std::vector<int64_t>{20, 30, 40, 50, 100, 200, 500, 1000}));
  EXPECT_EQ(window_list(10, 2), (std::vector<int64_t>{2, 3, 4, 5, 6, 7, 8, 9, 10}));
  LossScaleSettings s{.rule = Rule::mindformers_adaptive, .initial = 1024, .window = 3, .longest = 10, .shortest = 2};
  std::vector<int> script(21, 0);
  for (const int o : {1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1, 1, 1}) script.push_back(o);
  const std::vector<double> want = {1024,   1024,   2048,   2048,   2048,  4096,  4096,  4096,  8192,   8192,
                                    8192,   8192,   16384,  16384,  16384, 16384, 32768, 32768, 32768,  32768,
                                    65536,  32768,  16384,  8192,   16384, 32768, 65536, 65536, 131072, 131072,
                                    262144, 262144, 131072, 131072, 65536, 65536, 32768, 16384, 8192};
  EXPECT_EQ(scales(s, script), want);
  for (const size_t stop : {5U, 12U, 23U, 27U, 37U}) {
    LossScale first(s), second(s);
    for (size_t i = 0; i < stop; ++i) (void)first.update(script[i] != 0);
    second.restore(first.state(), static_cast<int64_t>(stop), "checkpoint");
    std::vector<double> rest;
    for (size_t i = stop; i < script.size(); ++i) (void)second.update(script[i] != 0), rest.push_back(second.scale());
    EXPECT_EQ(rest, std::vector<double>(want.begin() + static_cast<ptrdiff_t>(stop), want.end())) << stop;
  }
  LossScale fresh(s);
  Json bad = LossScale(s).state();
  for (const Json& window : {Json{4, 1, 0, 0}, Json{3, 9, 0, 0}, Json{3, 1, 4, 0}, Json{3, 1}, Json("x")}) {
    bad["window"] = window;
    EXPECT_THROW(fresh.restore(bad, 10, "checkpoint"), UserError) << window;
  }
  s.window = 33;
  EXPECT_EQ(scales(s, {0, 0, 0, 0}), (std::vector<double>{1024, 2048, 2048, 4096})) << "not on the list: the shortest";
}

TEST(LossScale, GoesOnFromItsState) {
  const LossScaleSettings s{.initial = 64, .window = 2};
  const std::vector<int> script = {0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0};
  const std::vector<double> whole = scales(s, script);
  for (size_t stop = 0; stop < script.size(); ++stop) {
    LossScale a(s);
    for (size_t i = 0; i < stop; ++i) ASSERT_TRUE(a.update(script[i] != 0));
    LossScale b(s);
    b.restore(Json::parse(a.state().dump()), static_cast<int64_t>(stop), "test");
    for (size_t i = stop; i < script.size(); ++i) {
      ASSERT_TRUE(b.update(script[i] != 0));
      ASSERT_EQ(b.scale(), whole[i]) << "stopped after " << stop << ", step " << i;
    }
  }
  // A value that is impossible after 3 steps is refused, and the error names its field.
  const Json good{{"scale", 2.0}, {"step", 3}, {"last_overflow", 1}, {"hysteresis", 1}};
  LossScale(s).restore(good, 3, "test");
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  const std::vector<std::pair<const char*, Json>> wrong{
      {"scale", nullptr},          {"scale", -1.0},      {"scale", 1e308},
      {"scale", 1e-300},           {"step", 5},          {"step", -1},
      {"last_overflow", kLargest}, {"last_overflow", 4}, {"last_overflow", -2},
      {"hysteresis", 9},           {"hysteresis", 0}};
  for (const auto& [key, value] : wrong) {
    Json state = good;
    state[key] = value;
    try {
      LossScale(s).restore(state, 3, "test");
      FAIL() << key << " " << value << " is taken";
    } catch (const UserError& e) {
      EXPECT_NE(std::string(e.what()).find(fmt::format("'{}'", key)), std::string::npos) << e.what();
    }
  }
}

// Recorded from DeepSpeed 0.13.1 and 0.19.8.
TEST(LossScale, SequencesOfDeepSpeed) {
  const char* shared = std::getenv("RAVINE_SHARED");
  if (!shared) GTEST_SKIP() << "SKIPPED: RAVINE_SHARED is not set";
  std::ifstream in(std::string(shared) + "/golden/deepspeed/loss_scaler.json");
  const Json golden = Json::parse(in);
  size_t steps = 0;
  for (const Json& k : golden.at("cases"))
    for (auto [name, rule] : {std::pair{"0.19.8", Rule::deepspeed}, {"0.13.1", Rule::deepspeed_013}}) {
      LossScale scale({.rule = rule,
                       .initial = std::ldexp(1.0, k.at("initial_scale_power").get<int>()),
                       .least = k.at("min_loss_scale").get<double>(),
                       .window = k.at("loss_scale_window").get<int64_t>(),
                       .hysteresis = k.at("hysteresis").get<int64_t>(),
                       .consecutive_hysteresis = k.at("consecutive_hysteresis").get<bool>()});
      const Json& want = k.at(name);
      for (size_t i = 0; i < want.at("scale").size(); ++i, ++steps) {
        ASSERT_TRUE(scale.update(k.at("overflow")[i].get<int>() != 0)) << k.at("script") << " " << i;
        ASSERT_EQ(scale.scale(), want.at("scale")[i].get<double>()) << k.at("script") << " " << i;
        ASSERT_EQ(scale.hysteresis(), want.at("hysteresis")[i].get<int64_t>()) << k.at("script") << " " << i;
      }
      if (!want.at("raised").is_null() && want.at("raised").is_object())
        EXPECT_FALSE(scale.update(k.at("overflow")[want.at("scale").size()].get<int>() != 0)) << k.at("script");
    }
  EXPECT_GT(steps, 100u);
}

}  // namespace test_step_loss_scale
}  // namespace ravine
