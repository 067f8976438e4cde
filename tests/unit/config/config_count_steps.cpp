// Lengths that are asked for as shares: passes over the data, a warm-up as a share of the run.
#include "config/count_steps.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "config/load.h"

namespace ravine {
namespace test_config_count_steps {

Config read(const std::string& yaml) { return parse_config(yaml, "run.yaml"); }

std::string error_of(const std::string& yaml) {
  try {
    read(yaml);
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

TEST(CountSteps, PassesBecomeStepsOnceTheDataAreKnown) {
  struct Case {
    double epochs;
    int64_t samples, steps;
  };
  for (const Case& c : {Case{3, 120, 45}, Case{0.1, 240, 3}, Case{1, 121, 16}, Case{1e-6, 8, 1}, Case{2, 4, 1}}) {
    Config config = read(fmt::format("train: {{epochs: {}, global_batch: 8}}", c.epochs));
    EXPECT_EQ(config.train.epochs, c.epochs);
    count_steps(config, c.samples);
    EXPECT_EQ(config.train.steps, c.steps) << c.epochs << " of " << c.samples;
    EXPECT_EQ(config.train.epochs, 0);
  }
  Config counted = read("train: {steps: 7}");
  count_steps(counted, 100);
  EXPECT_EQ(counted.train.steps, 7);
}

TEST(CountSteps, WarmUpIsAShareOfTheSchedule) {
  EXPECT_EQ(read("train: {steps: 30}\nschedule: {warmup_ratio: 0.1}").schedule.warmup_steps, 3);
  EXPECT_EQ(read("train: {steps: 31}\nschedule: {type: linear, warmup_ratio: 0.1}").schedule.warmup_steps, 4);
  EXPECT_EQ(read("train: {steps: 30}\nschedule: {steps: 200, warmup_ratio: 0.1}").schedule.warmup_steps, 20);
  EXPECT_EQ(read("schedule: {warmup_ratio: 0}").schedule.warmup_steps, 0);
  EXPECT_FALSE(read("schedule: {warmup_ratio: 0.1}").schedule.classes.warmup_ratio);
  Config later = read("train: {epochs: 2, global_batch: 1}\nschedule: {warmup_ratio: 0.05}");
  EXPECT_EQ(later.schedule.classes.warmup_ratio, 0.05) << "the length is not known yet";
  count_steps(later, 50);
  EXPECT_EQ(later.schedule.warmup_steps, 5);
  const Config other = read("schedule: {type: CosineWithWarmUpLR, warmup_ratio: 0.1}");
  EXPECT_EQ(other.schedule.classes.warmup_ratio, 0.1) << "its class counts";
}

TEST(CountSteps, OneLengthIsReportedOnce) {
  EXPECT_NE(error_of("train: {epochs: 2, steps: 10}").find("each says how long the run is"), std::string::npos);
  EXPECT_NE(error_of("schedule: {warmup_ratio: 0.1, warmup_steps: 10}").find("each says how long the warm-up is"),
            std::string::npos);
  EXPECT_NE(error_of("train: {epochs: 2}\ndata: {order: megatron}").find("made for a number of steps"), std::string::npos);
  EXPECT_NE(error_of("train: {epochs: -1}").find("train.epochs"), std::string::npos);
  EXPECT_EQ(error_of("train: {epochs: 2}\nschedule: {type: CosineWithWarmUpLR, warmup_ratio: 0.1, warmup_steps: 3}"), "");
}

}  // namespace test_config_count_steps
}  // namespace ravine
