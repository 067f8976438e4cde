// Tests of the run or model of a folder: one made by init, one copied or moved with its run, a run with and without its
// model.
#include "runs/run_paths.h"

#include "base/error.h"
#include "config/load.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_run_paths {
namespace fs = std::filesystem;

// Writes the files of a run without marks, as older versions did.
void fake_run(const std::string& folder, const std::string& output_path) {
  fs::create_directories(folder);
  Config c;
  c.train.output = output_path;
  spill(folder + "/config.yaml", to_yaml(c));
  spill(folder + "/metrics.jsonl", "{\"step\": 1}\n");
}

void prepare(const std::string& folder, const std::string& output_path) {
  fs::create_directories(folder);
  spill(folder + "/run.yaml", "train: {output: " + output_path + "}\n");
}

std::string refusal(const std::string& file, const std::vector<Setting>& settings = {}) {
  try {
    refuse_config_of_other_run(load_config(file, settings));
  } catch (const UserError& e) {
    return e.what();
  }
  return "taken";
}

TEST(Prepared, IsAFolderOfInitAlone) {
  TemporaryFolder f;
  EXPECT_FALSE(is_prepared(f.path())) << "empty";
  EXPECT_FALSE(is_prepared(f / "none"));
  prepare(f.path(), f / "run");
  EXPECT_TRUE(is_prepared(f.path()));
  EXPECT_FALSE(is_prepared(f / "run.yaml")) << "a file";
  spill(f / "config.json", "{}");
  EXPECT_FALSE(is_prepared(f.path())) << "a model";
  fs::remove(f / "config.json");
  fake_run(f.path(), f.path());
  EXPECT_FALSE(is_prepared(f.path())) << "a run";
}

TEST(ResolveRun, IsThatOfThePreparedFolder) {
  TemporaryFolder f;
  const std::string first = f / "first", second = f / "second", elsewhere = f / "elsewhere";
  EXPECT_EQ(resolve_run(elsewhere), elsewhere) << "what is not prepared is meant itself";
  prepare(first, first + "/run");
  const std::string message = message_of<UserError>([&] { resolve_run(first); });
  EXPECT_NE(message.find("nothing has run here yet"), std::string::npos);
  EXPECT_NE(message.find("`ravine train --config " + first + "/run.yaml`"), std::string::npos) << message;
  fake_run(first + "/run", first + "/run");
  EXPECT_EQ(resolve_run(first), first + "/run");
  // A copy without a run stands for the run that its run.yaml names. A copy with a run stands for its own run.
  prepare(second, first + "/run");
  EXPECT_EQ(resolve_run(second), first + "/run");
  fake_run(second + "/run", first + "/run");
  EXPECT_EQ(resolve_run(second), second + "/run");
  EXPECT_EQ(resolve_run(second + "/"), second + "/run");
  // If the first folder is gone, it was moved and not copied.
  fs::rename(first, f / "old");
  EXPECT_EQ(resolve_run(second), second + "/run");
  // The user's own choice of another place, which no folder of init holds.
  prepare(second, elsewhere);
  fake_run(elsewhere, elsewhere);
  EXPECT_EQ(resolve_run(second), elsewhere);
}

TEST(ResolveModel, IsThatOfTheRun) {
  TemporaryFolder f;
  const std::string run = f / "run", plain = f / "plain";
  fs::create_directories(plain);
  EXPECT_EQ(resolve_model(plain, "--model"), plain) << "whoever opens it says what is wrong";
  fake_run(run, run);
  const std::string message = message_of<UserError>([&] { resolve_model(run, "model.path"); });
  for (const std::string& part : {"model.path=" + run, "`ravine train --config " + run + "/config.yaml`"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_EQ(message.find("ravine convert"), std::string::npos) << "there is no checkpoint to make one of: " << message;
  fs::create_directories(run + "/model");
  EXPECT_THROW(resolve_model(run, "--model"), UserError) << "a model folder without a config is none";
  spill(run + "/model/config.json", "{}");
  EXPECT_EQ(resolve_model(run, "--model"), run + "/model");
  EXPECT_EQ(resolve_model(run + "/model", "--model"), run + "/model");
  prepare(f / "made", run);
  EXPECT_EQ(resolve_model(f / "made", "--model"), run + "/model") << "a folder of init stands for its run's";
  spill(run + "/config.json", "{}");
  EXPECT_EQ(resolve_model(run, "--model"), run) << "a folder that is a model itself";
}

TEST(GoesOn, ByTheRunsOwnConfigWhereverItLies) {
  TemporaryFolder f;
  const std::string run = f / "a run", other = f / "other";
  fake_run(run, run);
  EXPECT_EQ(command_that_goes_on_in(run), "ravine train --config '" + run + "/config.yaml'");
  EXPECT_EQ(command_that_goes_on_in(run + "/"), "ravine train --config '" + run + "/config.yaml'");
  fake_run(run, other);
  EXPECT_EQ(command_that_goes_on_in(run), "ravine train --config '" + run + "/config.yaml' train.output='" + run + "'")
      << "it was moved";
  spill(run + "/config.yaml", "no: [");
  EXPECT_EQ(command_that_goes_on_in(run), "ravine train --config '" + run + "/config.yaml'")
      << "train says what is wrong with it";
}

TEST(ConfigOfAnotherRun, IsRefusedUntilOneIsChosen) {
  TemporaryFolder f;
  const std::string first = f / "first", copy = f / "copy";
  fake_run(first, first), fake_run(copy, first);
  EXPECT_EQ(refusal(first + "/config.yaml"), "taken");
  const std::string message = refusal(copy + "/config.yaml");
  EXPECT_NE(message.find("this file sets train.output=" + first), std::string::npos) << message;
  EXPECT_NE(message.find("train.output=" + copy + " for the run here, train.output=" + first + " for the other run"),
            std::string::npos)
      << message;
  for (const std::string& chosen_output : {first, copy})
    EXPECT_EQ(refusal(copy + "/config.yaml", {{.key = "train.output", .value = chosen_output}}), "taken") << chosen_output;
  spill(f / "config.yaml", slurp(copy + "/config.yaml"));
  EXPECT_EQ(refusal(f / "config.yaml"), "taken") << "no run lies there";
  spill(copy + "/mine.yaml", slurp(copy + "/config.yaml"));
  EXPECT_EQ(refusal(copy + "/mine.yaml"), "taken") << "a config of the user's, under a name that runs do not write";
  // A folder of init, copied with its run.
  const std::string made = f / "made", again = f / "again";
  prepare(made, made + "/run"), fake_run(made + "/run", made + "/run");
  prepare(again, made + "/run");
  EXPECT_EQ(refusal(made + "/run.yaml"), "taken");
  EXPECT_EQ(refusal(again + "/run.yaml"), "taken") << "nothing has run there";
  fake_run(again + "/run", made + "/run");
  EXPECT_NE(refusal(again + "/run.yaml").find("train.output=" + again + "/run for the run here"), std::string::npos)
      << refusal(again + "/run.yaml");
}

}  // namespace test_run_paths
}  // namespace ravine
