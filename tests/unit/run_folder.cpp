// The folder of a run between two processes, what counts as an input, and what is seen of its checkpoints at a glance.
#include "train/run_folder.h"

#include "files/folder_mark.h"
#include "tests/unit/train_help.h"

namespace ravine {
namespace {

namespace fs = std::filesystem;

TEST(RunFolder, WhoeverWaitedForTheLockReadsTheMarkAgain) {
  TinyRunFolder run;
  auto first = std::make_unique<RunFolder>(run.config), second = std::make_unique<RunFolder>(run.config);  // both look before one of them writes
  first->hold();
  const std::string name = first->run();
  EXPECT_FALSE(name.empty());
  first.reset();
  second->hold();
  EXPECT_EQ(second->run(), name) << "the folder has got another owner";
  EXPECT_EQ(read_mark(run.config.train.output)->run, name);
}

TEST(RunFolder, ARunThatCameWhileOneWaitedIsNotRunOver) {
  TinyRunFolder run;
  RunFolder waits(run.config);
  {
    Trainer t(run.config, "cpu", run.log);
    t.run();  // without checkpoints: a model is all that it leaves
  }
  EXPECT_NE(message_of<UserError>([&] { waits.hold(); }).find("holds a finished model"), std::string::npos);
}

TEST(RunFolder, EveryOptionThatNamesSomethingReadIsAnInput) {
  TinyRunFolder run;
  fs::create_directories(run.folder / "from/checkpoints/step_000002");
  Config c = run.config;
  c.checkpoint.resume = run.folder / "from/checkpoints/step_000002";
  c.train.output = run.folder / "from/checkpoints/step_000002";
  EXPECT_NE(message_of<UserError>([&] { RunFolder folder(c); }).find("train.output is checkpoint.resume"), std::string::npos);
  c.train.output = run.folder / "from";
  write_mark(c.train.output, {"a run", {}});
  EXPECT_EQ(RunFolder(c).run(), "a run");  // which goes on from its own checkpoints
  for (const char* key : {"model.path", "data.chat_template"}) {
    Config other = run.config;
    fs::create_directories(run.config.train.output + "/tokens");
    (key == std::string("model.path") ? other.model.path : other.data.chat_template) = run.config.train.output + "/tokens";
    if (key == std::string("model.path")) other.model.config.clear();
    EXPECT_NE(message_of<UserError>([&] { RunFolder folder(other); }).find(key), std::string::npos);
  }
}

TEST(RunRecord, TheGlanceTakesWhatAResumeWouldTake) {
  TinyRunFolder run;
  run.config.checkpoint.every = 2;
  Trainer(run.config, "cpu", run.log).run();
  const std::string folder = run.config.train.output + "/checkpoints";
  ASSERT_EQ(glance_at_checkpoint(folder, "auto")->checkpoint, "step_000004");
  fs::remove(folder + "/latest");
  ASSERT_TRUE(glance_at_checkpoint(folder, "auto")) << "`latest` is gone, the checkpoints are not";
  EXPECT_EQ(glance_at_checkpoint(folder, "auto")->checkpoint, "step_000004");
  spill(folder + "/latest", "step_000009\n");
  EXPECT_EQ(glance_at_checkpoint(folder, "auto")->checkpoint, "step_000004");
  spill(folder + "/step_000004/manifest.json", "{");
  EXPECT_EQ(glance_at_checkpoint(folder, "auto")->checkpoint, "step_000002");
  EXPECT_FALSE(glance_at_checkpoint(folder, "none"));
}

}  // namespace
}  // namespace ravine
