// log.style=megatron: lines and scalars.
#include "styles/megatron_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "files/tensorboard.h"
#include "files/tensorboard_reader.h"
#include "tests/unit/fake_run.h"

namespace ravine {
namespace test_megatron_log {

StepReport report_of(int64_t step) {
  StepReport r;
  r.step = step;
  r.loss = 1.5, r.lr = 2.5, r.grad_norm = 3.5, r.tokens = 40, r.tokens_per_second = 5.5, r.sol = 0.65, r.step_time = 7.5,
  r.memory_mb = 8.5, r.wait = 9.5, r.valid = 40;
  return r;
}

// The scalars of megatron/training.py, each over iterations and over samples.
TEST(MegatronLog, ScalarsHaveItsNames) {
  FakeRun run(100);
  run.options.train.global_batch = 8;
  auto board = megatron_tensorboard_hook(2);
  board->start(run, 0);
  StepReport r = report_of(2);
  r.ranks = 4, r.loss_scale = 1024;
  r.more.emplace_back("valid_loss", 0.5);
  board->after_step(run, r);
  const EventData data = read_events(event_files(run.path("tensorboard")));
  std::map<std::string, double> want;
  for (const auto& [tag, value] :
       std::map<std::string, double>{{"learning-rate", 2.5},
                                     {"batch-size", 8},
                                     {"lm loss", 1.5},
                                     {"loss-scale", 1024},
                                     {"world-size", 4},
                                     {"grad-norm", 3.5},
                                     {"lm loss validation", 0.5},
                                     {"lm loss validation ppl", static_cast<float>(std::exp(0.5))}}) {
    ASSERT_TRUE(data.scalars.contains(tag)) << tag;
    EXPECT_EQ(data.scalars.at(tag), (std::vector<std::pair<int64_t, double>>{{2, value}})) << tag;
    ASSERT_TRUE(data.scalars.contains(tag + " vs samples")) << tag;
    EXPECT_EQ(data.scalars.at(tag + " vs samples"), (std::vector<std::pair<int64_t, double>>{{16, value}})) << tag;
  }
  EXPECT_EQ(data.scalars.at("iteration-time").at(0).second, 7.5);
  EXPECT_EQ(data.scalars.at("mem-allocated-bytes").at(0).second, 8.5 * (1 << 20));
  EXPECT_EQ(data.scalars.size(), 2U * 8 + 2);
  r.step = 3, r.more.clear();
  board->after_step(run, r);
  EXPECT_EQ(read_events(event_files(run.path("tensorboard"))).scalars.at("lm loss").size(), 1U) << "no line, no point";
  r.step = 4, r.skipped = r.overflow = true;
  board->after_step(run, r);
  const EventData skipped = read_events(event_files(run.path("tensorboard")));
  EXPECT_EQ(skipped.scalars.at("lm loss").size(), 1U) << "of a step that was not applied";
  EXPECT_EQ(skipped.scalars.at("loss-scale").size(), 2U);
}

// --log-params-norm, --log-num-zeros-in-grad and --log-throughput, written to the folder of --tensorboard-dir.
TEST(MegatronLog, FiguresOnRequest) {
  FakeRun run(4);
  run.options.log.tensorboard_dir = run.folder / "elsewhere";
  auto console = megatron_console_hook(2), board = megatron_tensorboard_hook(1);
  for (auto* hook : {&console, &board}) (*hook)->start(run, 0);
  for (int64_t step = 1; step <= 2; ++step) {
    StepReport r = report_of(step);
    r.flops = 15e12, r.ranks = 2, r.tflops = 1, r.weight_norm = 20.5, r.gradient_zeros = 7;
    for (auto* hook : {&console, &board}) (*hook)->after_step(run, r);
  }
  const std::string logged = run.logged();
  EXPECT_NE(logged.find("(ms): 7500.0 | throughput per GPU (TFLOP/s/GPU): 1.0 | learning rate"), std::string::npos) << logged;
  EXPECT_NE(logged.find("grad norm: 3.500 | num zeros: 7.0 | params norm: 20.500 | number of"), std::string::npos) << logged;
  const auto scalars = read_events(event_files(run.folder / "elsewhere")).scalars;
  for (const auto& [tag, value] :
       {std::pair{"num-zeros", 7.0}, {"params-norm", 20.5}, {"throughput", 1.0}, {"loss-scale", 1.0}})
    EXPECT_EQ(scalars.at(tag), (std::vector<std::pair<int64_t, double>>{{1, value}, {2, value}})) << tag;
  EXPECT_FALSE(std::filesystem::exists(run.path("tensorboard")));
}

TEST(MegatronLog, StepsWithoutALabelHaveNoLoss) {
  FakeRun run(4);
  auto console = megatron_console_hook(4), board = megatron_tensorboard_hook(1);
  for (auto* hook : {&console, &board}) (*hook)->start(run, 0);
  for (int64_t step = 1; step <= 4; ++step) {
    StepReport r = report_of(step);
    if (step == 2 || step == 3) r.valid = 0, r.loss = 0;
    for (auto* hook : {&console, &board}) (*hook)->after_step(run, r);
  }
  const std::string logged = run.logged();
  EXPECT_NE(logged.find("lm loss: 1.500000E+00"), std::string::npos) << logged;
  EXPECT_EQ(read_events(event_files(run.path("tensorboard"))).scalars.at("lm loss").size(), 2U);
}

}  // namespace test_megatron_log
}  // namespace ravine
