// A run between two starts: what TensorBoard and checkpoints keep, what is said each time, and what the exported model
// gets.
#include <filesystem>
#include <numeric>
#include <regex>

#include "files/tensorboard_reader.h"
#include "io/open_weights.h"
#include "tests/unit/train_help.h"

namespace ravine {
namespace test_train_resume {

namespace fs = std::filesystem;

std::string run_once(TinyRunFolder& run) {
  const std::string log = run.config.train.output + "/log.txt";
  std::error_code none;
  fs::remove(log, none);
  Trainer(run.config, Backend::cpu, run.log).run();
  return slurp(log);
}

void forget_after(TinyRunFolder& run, int64_t step) {
  const std::string there = run.config.train.output + "/checkpoints/";
  for (int64_t s = step + 1; s < 100; ++s) fs::remove_all(there + checkpoint_name(s));
  spill(there + "latest", checkpoint_name(step) + "\n");
}

TEST(Resume, TensorBoardHasEachStepOnce) {
  TinyRunFolder run;
  run.config.checkpoint.every = 2;
  run.config.train.valid_every = 0;
  run_once(run);
  forget_after(run, 2);
  run.config.optimizer.groups.clear();
  run_once(run);
  std::vector<std::string> files = event_files(run.config.train.output + "/tensorboard");
  ASSERT_EQ(files.size(), 2u);
  const EventData data = read_events(files);
  std::vector<int64_t> steps;
  for (const auto& [step, value] : data.scalars.at("train/loss")) steps.push_back(step);
  EXPECT_EQ(steps, (std::vector<int64_t>{1, 2, 3, 4})) << "the step resumed from keeps its point, those behind it come again";
  for (const char* tag : {"train/lr", "train/grad_norm", "speed/tokens_per_second", "speed/sol", "memory/resident_mb"})
    EXPECT_EQ(data.scalars.at(tag).size(), 4u) << tag;
  steps.clear();
  for (const Json& m : run.metrics()) steps.push_back(m["step"]);
  EXPECT_EQ(steps, (std::vector<int64_t>{1, 2, 3, 4}));
}

TEST(Resume, OtherWeightsThanAtTheBeginningAreReportedEachTime) {
  TinyRunFolder made, run;
  for (uint64_t seed : {1, 2}) {
    made.config.train.seed = static_cast<int64_t>(seed);
    made.config.train.output = made.folder / std::to_string(seed);
    made.config.train.steps = 1;
    run_once(made);
  }
  const std::string model = run.folder / "base";
  fs::copy(made.folder / "1/model", model);
  run.config.model.config.clear();
  run.config.model.path = model;
  run.config.checkpoint.every = 1;
  run.config.schedule.steps = 10;
  run.config.train.steps = 1;
  const char* words = "holds other weights than when this run began: it goes on with those of step_00000";
  EXPECT_EQ(run_once(run).find(words), std::string::npos);
  run.config.train.steps = 2;
  EXPECT_EQ(run_once(run).find(words), std::string::npos) << "they are the same";
  fs::copy_file(made.folder / "2/model/model.safetensors", model + "/model.safetensors", fs::copy_options::overwrite_existing);
  for (int64_t steps : {3, 4, 5}) {
    run.config.train.steps = steps;
    const std::string log = run_once(run);
    EXPECT_NE(log.find(words + std::to_string(steps - 1)), std::string::npos) << log;
  }
  const std::string saved = run.config.train.output + "/checkpoints/step_000005";
  EXPECT_EQ(CheckpointReader(saved, true).scalars().at("weights"), weights_checksum(made.folder / "1/model"))
      << "those that it began with";
}

TEST(Resume, AnotherRateThanTheOptionsOfThenWouldGiveIsReported) {
  TinyRunFolder run;
  run.config.train.valid_every = 0;
  run.config.checkpoint.every = 2;
  run.config.optimizer.lr = 1e-3;
  run.config.schedule.type = ScheduleType::linear;
  run.config.train.steps = 5;
  run_once(run);
  forget_after(run, 4);
  EXPECT_EQ(run_once(run).find("rate     "), std::string::npos) << "nothing is another";
  forget_after(run, 4);
  run.config.train.steps = 9;  // of 1e-3 a quarter is left at the fifth step of five, five eighths of nine
  const std::string log = run_once(run);
  EXPECT_NE(log.find("rate     0.0005 before, 0.000625 from step 5 on; without the changed options 0.00025\n"),
            std::string::npos)
      << log;
}

TEST(Resume, CheckpointsNameTheirRun) {
  TinyRunFolder run;
  run.config.checkpoint.every = 3;
  run.config.log.every = 2;
  run.config.train.valid_every = 0;
  run.config.train.seed = 11;
  run.config.optimizer.type = OptimizerType::sgd;
  run_once(run);
  const Json s = CheckpointReader(run.config.train.output + "/checkpoints/step_000003", true).scalars();
  EXPECT_TRUE(s.at("step") == 3 && s.at("tokens") == 3 * 2 * kWidth && s.at("seed") == 11 && s.at("optimizer") == "sgd" &&
              s.at("global_batch") == 2 && s.at("optimizer_steps") == 3)
      << s;
  EXPECT_TRUE(s.at("layout").at("stage_layers") == Json({2}) && s.at("layout").at("micro_batches") == 2 &&
              s.at("layout").at("data") == 1)
      << s;
  EXPECT_TRUE(s.at("window").at("steps") == 1 && s.at("window").at("tokens") == 2 * kWidth)
      << "the step behind the last line: " << s;
  EXPECT_FALSE(CheckpointReader(run.config.train.output + "/checkpoints/step_000004", true).scalars().contains("window"))
      << "a line was written";
}

TEST(Run, EndsWithTheMeanOfItsLastTwentyLosses) {
  TinyRunFolder run;
  run.config.train.steps = 23;
  run.config.train.valid_every = 0;
  run.config.optimizer.lr = 0.05;
  run.config.data.skip_steps = {21};
  const std::string log = run_once(run);
  double sum = 0;
  int64_t n = 0;
  for (const Json& m : run.metrics())
    if (m["step"].get<int64_t>() > 2 && m.contains("loss")) sum += m["loss"].get<double>(), ++n;
  EXPECT_EQ(n, 20);
  EXPECT_NE(log.find(fmt::format("done     23 steps, loss {:.4f} on average over the last 20\n", sum / 20)), std::string::npos)
      << log;
  EXPECT_NE(log.find("step 21/23  skipped (data.skip_steps)\n"), std::string::npos) << log;
  const EventData data = read_events(event_files(run.config.train.output + "/tensorboard"));
  EXPECT_EQ(data.scalars.at("train/loss").size(), 22u) << "a step that was left out has no point";
}

TEST(Run, ACompleteRunExportsAgainWhereAnotherModelIsSet) {
  TinyRunFolder run;
  run.config.checkpoint.every = 2;
  run_once(run);
  const std::string model = run.config.train.output + "/model/model.safetensors", nothing = "nothing is left to do";
  EXPECT_NE(run_once(run).find(nothing), std::string::npos);
  const auto bytes = fs::file_size(model);
  run.config.checkpoint.model_dtype = DType::bf16;
  const std::string log = run_once(run);
  EXPECT_EQ(log.find(nothing), std::string::npos) << log;
  EXPECT_NE(log.find("in bf16, rounded from f32 (checkpoint.model_dtype)"), std::string::npos) << log;
  EXPECT_LT(fs::file_size(model), bytes);
  EXPECT_NE(run_once(run).find(nothing), std::string::npos);
  run.config.checkpoint.shard_mb = 1234;
  EXPECT_EQ(run_once(run).find(nothing), std::string::npos) << "so do shards of another size";
  spill(run.config.train.output + "/exported", "step_000004\n");
  EXPECT_NE(run_once(run).find(nothing), std::string::npos) << "an older version named the checkpoint only";
  spill(run.config.train.output + "/exported", "step_000002\n");
  EXPECT_EQ(run_once(run).find(nothing), std::string::npos) << "the model of another checkpoint";
}

TEST(Run, ARunWithoutCheckpointsReportsThatItBeginsAgain) {
  TinyRunFolder run;
  run.config.checkpoint.every = 0;
  run_once(run);
  fs::remove_all(run.config.train.output + "/model");
  const std::string log = run_once(run);
  EXPECT_NE(log.find("anew     the run begins again: it was at step 4 at least, and goes on from no checkpoint"),
            std::string::npos)
      << log;
  EXPECT_EQ(run.metrics().size(), 4u);
}

TEST(Run, TheExportKeepsTheBasesGenerationConfig) {
  TinyRunFolder made, run;
  made.config.train.steps = 1;
  run_once(made);
  const std::string model = run.folder / "base";
  fs::copy(made.config.train.output + "/model", model);
  spill(model + "/generation_config.json", R"({"temperature": 0.25, "eos_token_id": [3, 5]})");
  run.config.model.config.clear();
  run.config.model.path = model;
  run_once(run);
  EXPECT_EQ(read_json(run.config.train.output + "/model/generation_config.json"),
            (Json{{"temperature", 0.25}, {"eos_token_id", {3, 5}}}));
}

}  // namespace test_train_resume
}  // namespace ravine
