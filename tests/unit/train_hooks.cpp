// Hooks and the loop that calls them: in their order, what each is given, when each acts; the rate of each step; what of the
// machine's memory a rank may have.
#include "train/hooks.h"

#include <filesystem>
#include <regex>

#include "kernels/backend.h"
#include "tests/unit/train_help.h"

namespace ravine {
namespace {

namespace fs = std::filesystem;

StepReport report_of(int64_t step) {
  StepReport r;
  r.step = step;
  r.loss = 1.5, r.lr = 2.5, r.grad_norm = 3.5, r.tokens = 40, r.tokens_per_second = 5.5, r.sol = 0.65, r.step_time = 7.5,
  r.memory_mb = 8.5, r.wait = 9.5;
  return r;
}

TEST(Hooks, MetricsHoldEachFigureUnderItsName) {
  TinyRunFolder run;
  Trainer t(run.config, "cpu", run.log);
  fs::create_directories(run.config.train.output);
  auto hook = metrics_hook(1);
  hook->start(t, 0);
  StepReport r = report_of(1);
  r.more.emplace_back("valid_loss", 10.5);
  hook->after_step(t, r);
  ASSERT_EQ(run.metrics().size(), 1u);
  EXPECT_EQ(run.metrics()[0], (Json{{"step", 1},
                                    {"loss", 1.5},
                                    {"lr", 2.5},
                                    {"grad_norm", 3.5},
                                    {"tokens", 40},
                                    {"tokens_per_second", 5.5},
                                    {"sol", 0.65},
                                    {"step_time", 7.5},
                                    {"memory_mb", 8.5},
                                    {"data_wait", 9.5},
                                    {"valid_loss", 10.5}}));
  StepReport skipped;
  skipped.step = 2, skipped.left_out = skipped.skipped = true, skipped.tokens = 40;
  hook->after_step(t, skipped);
  EXPECT_EQ(run.metrics()[1], (Json{{"step", 2}, {"skipped", true}, {"tokens", 40}}));
  StepReport judged = report_of(3);  // by a guard: its figures are those of the step that was not applied
  judged.skipped = true;
  hook->after_step(t, judged);
  EXPECT_EQ(run.metrics()[2]["skipped"], true);
  EXPECT_EQ(run.metrics()[2]["grad_norm"], 3.5);
}

TEST(Hooks, MetricsOfSeveralRanksSayWhatWasSent) {
  TinyRunFolder run;
  Trainer t(run.config, "cpu", run.log);
  fs::create_directories(run.config.train.output);
  auto hook = metrics_hook(1);
  hook->start(t, 0);
  StepReport r = report_of(1);
  r.ranks = 2;
  r.traffic.sent_mb = 1, r.traffic.wait = 0.5, r.traffic.wait_least = 0.25, r.traffic.slowest = 1, r.traffic.bubble = 0.125;
  r.traffic.parts.push_back({"data", 3, 4});
  hook->after_step(t, r);
  const Json m = run.metrics()[0];
  const Json want{{"comm_mb", 1},    {"comm_wait", 0.5},  {"comm_wait_least", 0.25}, {"slowest_rank", 1},
                  {"bubble", 0.125}, {"comm_data_mb", 3}, {"comm_data_seconds", 4}};
  for (auto& [key, value] : want.items()) EXPECT_EQ(m.at(key).get<double>(), value.get<double>()) << key;
}

TEST(Hooks, MetricsAreWrittenWhenDueAtTheEndAndWhenThereIsMore) {
  TinyRunFolder run;
  run.config.train.steps = 8;
  Trainer t(run.config, "cpu", run.log);
  fs::create_directories(run.config.train.output);
  auto hook = metrics_hook(3);
  hook->start(t, 0);
  for (int64_t step = 1; step <= 8; ++step) {
    StepReport r = report_of(step);
    if (step == 4) r.more.emplace_back("valid_loss", 1);
    hook->after_step(t, r);
  }
  std::vector<int64_t> steps;
  for (const Json& m : run.metrics()) steps.push_back(m["step"]);
  EXPECT_EQ(steps, (std::vector<int64_t>{3, 4, 6, 8}));
  metrics_hook(1)->start(t, 4);  // a resume after step 4
  steps.clear();
  for (const Json& m : run.metrics()) steps.push_back(m["step"]);
  EXPECT_EQ(steps, (std::vector<int64_t>{3, 4}));
}

TEST(Hooks, ValidationAddsItsLossWhenDue) {
  TinyRunFolder run;
  run.config.train.steps = 7;
  Trainer t(run.config, "cpu", run.log);
  t.engine().allocate();
  auto hook = validation_hook(3);
  std::vector<int64_t> due;
  for (int64_t step = 1; step <= 7; ++step) {
    StepReport r = report_of(step);
    hook->after_step(t, r);
    if (r.more.empty()) continue;
    due.push_back(step);
    EXPECT_EQ(r.more[0].first, "valid_loss");
    EXPECT_EQ(r.more[0].second, t.validate());
    // Weights are zero still: every token is as likely as any other, and only labels that count do.
    EXPECT_NEAR(r.more[0].second, std::log(static_cast<double>(kVocabulary)), 8 * epsilon(DType::f32));
  }
  EXPECT_EQ(due, (std::vector<int64_t>{3, 6, 7}));
  auto never = validation_hook(0);
  StepReport r = report_of(7);
  never->after_step(t, r);
  EXPECT_TRUE(r.more.empty());
}

// Steps whose folders are there after a run, and the rows of its metrics.
TEST(Hooks, ARunCallsThemInOrder) {
  TinyRunFolder run;
  run.config.checkpoint.every = 3;
  run.config.checkpoint.keep = 0;
  run.config.optimizer.lr = 0.01;
  Trainer t(run.config, "cpu", run.log);
  t.run();
  std::vector<Json> rows = run.metrics();
  ASSERT_EQ(rows.size(), 4u);
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto step = static_cast<int64_t>(i) + 1;
    EXPECT_EQ(rows[i]["step"], step);
    EXPECT_EQ(rows[i]["lr"].get<double>(), learning_rate(run.config.schedule, 0.01, 4, step - 1))
        << "the first step has index 0";
    EXPECT_EQ(rows[i]["tokens"], 2 * kWidth * step);
    EXPECT_EQ(rows[i].contains("valid_loss"), step % 2 == 0) << "validation comes before the row is written";
  }
  EXPECT_EQ(rows[0]["lr"], 0);
  EXPECT_EQ(rows[3]["valid_loss"].get<double>(), *t.validate()) << "of the weights after the step";
  EXPECT_TRUE(run.folder.has("run/checkpoints/step_000003/manifest.json"));
  EXPECT_TRUE(run.folder.has("run/checkpoints/step_000004/manifest.json")) << "and at the end";
  EXPECT_FALSE(run.folder.has("run/checkpoints/step_000002"));
  ASSERT_TRUE(t.last_report());
  EXPECT_EQ(t.last_report()->step, 4);
  EXPECT_EQ(t.tokens_seen(), 8 * kWidth);
}

// Validation once more from its definition: each row alone, its losses summed, over the labels that count.
TEST(Trainer, ValidationLossIsTheMeanOverLabelsThatCount) {
  TinyRunFolder run;
  run.config.train.micro_batch = 2;
  run.config.optimizer.lr = 0.05;
  run.config.train.dropout = 0.2;
  Trainer t(run.config, "cpu", run.log);
  t.run();
  ExactSum sum;
  int64_t count = 0;
  for (int64_t r = 0; r < 3; ++r) {
    MicroBatch m;
    m.rows = 1, m.columns = kWidth;
    for (int64_t i = 0; i < kWidth; ++i) {
      auto id = [&](int64_t at) {
        return static_cast<int32_t>(philox(2, {static_cast<uint32_t>(r), static_cast<uint32_t>(at), 0, 0})[0] % kVocabulary);
      };
      m.ids.push_back(id(i));
      m.positions.push_back(static_cast<int32_t>(i));
      const bool counts = i + 1 < kWidth && i + 1 > r;
      m.labels.push_back(counts ? id(i + 1) : -100);
      m.valid_tokens += counts;
    }
    m.segments = {{0, static_cast<int32_t>(kWidth)}};
    m.sequence_index = {0};
    auto [mine, valid] = t.engine().evaluate(m);
    sum.add(mine);
    count += valid;
  }
  EXPECT_EQ(count, 11 + 10 + 9);
  // Sums of 8 terms in single precision, averaged.
  EXPECT_NEAR(*t.validate(), sum.value() / static_cast<double>(count), 16 * epsilon(DType::f32));
  EXPECT_EQ(run.metrics().back()["valid_loss"].get<double>(), *t.validate());
}

TEST(Trainer, ASkippedStepTeachesNothingAndTheRateWaits) {
  TinyRunFolder run;
  run.config.optimizer.lr = 0.05;
  run.config.schedule.steps = 10;
  run.config.data.skip_steps = {2};
  run.config.train.valid_every = 0;
  Trainer t(run.config, "cpu", run.log);
  t.run();
  std::vector<Json> rows = run.metrics();
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[1], (Json{{"step", 2}, {"skipped", true}, {"tokens", 2 * kWidth}}));
  ScheduleOptions ten = run.config.schedule;
  ten.steps = 0;
  for (auto [step, updates] : {std::pair{1, 0}, {3, 1}, {4, 2}})  // of schedule.steps, not train.steps
    EXPECT_EQ(rows[static_cast<size_t>(step - 1)]["lr"].get<double>(), learning_rate(ten, 0.05, 10, updates))
        << "before step " << step;
  EXPECT_EQ(t.tokens_seen(), 6 * kWidth);
  EXPECT_EQ(t.engine().optimizer().steps(), 3) << "moments know the steps that were taken";
}

TEST(Trainer, ValidationTakesAsManyMicroBatchesAsItIsTold) {
  TinyRunFolder run;
  run.config.train.micro_batch = 2;
  run.config.train.valid_batches = 1;
  run.config.optimizer.lr = 0.05;
  Trainer t(run.config, "cpu", run.log);
  t.run();
  const double two = *t.validate();
  TinyRunFolder all;
  all.save("valid.safetensors", 2, 2);  // the same two rows, and no other
  all.config.train.micro_batch = 2;
  all.config.optimizer.lr = 0.05;
  Trainer u(all.config, "cpu", all.log);
  u.run();
  EXPECT_EQ(two, *u.validate());
}

TEST(Trainer, WithoutValidationDataThereIsNoLoss) {
  TinyRunFolder run;
  run.config.data.valid.clear();
  Trainer t(run.config, "cpu", run.log);
  EXPECT_FALSE(t.validate().has_value());
}

// --- memory

class Neighbours : public World {
 public:
  explicit Neighbours(int local) { local_size_ = local; }
  int rank() const override { return 0; }
  int size() const override { return 1; }
  const Group& all() const override { return self_; }
  std::unique_ptr<Group> group(const std::vector<int>&, std::string_view) override { return std::make_unique<SelfGroup>(); }

 private:
  SelfGroup self_;
};

// "this process has 12.5 GiB at most" of the refusal of a run that fits nowhere.
double allowed(TinyRunFolder& run, int ranks_of_host) {
  Neighbours world(ranks_of_host);
  std::string text = message_of<UserError>([&] { Trainer t(run.config, "cpu", run.log, &world); });
  std::smatch m;
  if (!std::regex_search(text, m, std::regex(R"(this process has ([0-9.]+) ([KMGT]?i?B))"))) {
    ADD_FAILURE() << text;
    return 0;
  }
  const std::string units = "BKMGT", unit = m[2];
  return std::stod(m[1]) * std::pow(1024.0, static_cast<double>(units.find(unit[0])));
}

TEST(Trainer, RanksOfOneHostShareItsMemory) {
  TinyRunFolder run;
  Json huge = tiny_llama();
  huge.update({{"hidden_size", 65536}, {"intermediate_size", 262144}, {"num_hidden_layers", 4}});
  std::ofstream(run.config.model.config) << huge.dump();
  const double before = allowed(run, 1), shared = allowed(run, 8), after = allowed(run, 1);
  // What is free changes while others work on the machine: by less than half, in between.
  EXPECT_LT(shared, std::max(before, after) / 8 * 2);
  EXPECT_GT(shared, std::min(before, after) / 8 / 2);
}

}  // namespace
}  // namespace ravine
