// Tests of the loop of a run: order of hooks, learning rate of each step, validation, and the memory that a rank may
// use.
#include <cmath>
#include <regex>

#include "kernels/backend.h"
#include "optim/schedule.h"
#include "tests/unit/train_help.h"

namespace ravine {
namespace test_train_loop {

// Steps whose folders are there after a run, and the rows of its metrics.
TEST(Trainer, CallsHooksInOrder) {
  TinyRunFolder run;
  run.config.checkpoint.every = 3;
  run.config.checkpoint.keep = 0;
  run.config.optimizer.lr = 0.01;
  Trainer t(run.config, Backend::cpu, run.log);
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
  EXPECT_EQ(rows[3]["valid_loss"].get<double>(), t.validate()->loss) << "of the weights after the step";
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
  Trainer t(run.config, Backend::cpu, run.log);
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
  EXPECT_NEAR(t.validate()->loss, sum.value() / static_cast<double>(count), 16 * epsilon(DType::f32));
  EXPECT_EQ(run.metrics().back()["valid_loss"].get<double>(), t.validate()->loss);
}

TEST(Trainer, ASkippedStepTeachesNothingAndTheRateWaits) {
  TinyRunFolder run;
  run.config.optimizer.lr = 0.05;
  run.config.schedule.steps = 10;
  run.config.data.skip_steps = {2};
  run.config.train.valid_every = 0;
  Trainer t(run.config, Backend::cpu, run.log);
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

TEST(Trainer, ValidationTakesAsManyMicroBatchesAsAreSet) {
  TinyRunFolder run;
  run.config.train.micro_batch = 2;
  run.config.train.valid_batches = 1;
  run.config.optimizer.lr = 0.05;
  Trainer t(run.config, Backend::cpu, run.log);
  t.run();
  const double two = t.validate()->loss;
  TinyRunFolder all;
  all.save("valid.safetensors", 2, 2);  // the same two rows, and no other
  all.config.train.micro_batch = 2;
  all.config.optimizer.lr = 0.05;
  Trainer u(all.config, Backend::cpu, all.log);
  u.run();
  EXPECT_EQ(two, u.validate()->loss);
}

TEST(Trainer, WithZeroWeightsEveryTokenIsAsLikelyAsAnyOther) {
  TinyRunFolder run;
  Trainer t(run.config, Backend::cpu, run.log);
  t.engine().allocate();
  EXPECT_NEAR(t.validate()->loss, std::log(static_cast<double>(kVocabulary)), 8 * epsilon(DType::f32))
      << "only labels that count do";
}

TEST(Trainer, WithoutValidationDataThereIsNoLoss) {
  TinyRunFolder run;
  run.config.data.valid.clear();
  Trainer t(run.config, Backend::cpu, run.log);
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
  std::string text = message_of<UserError>([&] { Trainer t(run.config, Backend::cpu, run.log, &world); });
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
  // Free memory changes while other programs run: by less than half in between.
  EXPECT_LT(shared, std::max(before, after) / 8 * 2);
  EXPECT_GT(shared, std::min(before, after) / 8 / 2);
}

}  // namespace test_train_loop
}  // namespace ravine
