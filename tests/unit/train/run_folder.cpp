// The folder of a run between two processes, what counts as an input, and what is seen of its checkpoints at a glance.
#include "runs/run_folder.h"

#include "files/folder_mark.h"
#include "runs/open.h"
#include "runs/run_record.h"
#include "runs/run_state.h"
#include "runs/stop_request.h"
#include "tests/unit/io_checkpoint_state.h"
#include "tests/unit/train_help.h"

namespace ravine {
namespace test_run_folder {

namespace fs = std::filesystem;

TEST(RunFolder, AWaiterForTheLockReadsTheMarkAgain) {
  TinyRunFolder run;
  auto first = std::make_unique<RunFolder>(run.config),
       second = std::make_unique<RunFolder>(run.config);  // both look before one of them writes
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
    Trainer t(run.config, Backend::cpu, run.log);
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

TEST(RunFolder, OnlyARunsMarkOpensIt) {
  for (const auto& [mark, opens] : {std::pair{FolderMark{"x", {}, kRunFolder}, true},
                                    {FolderMark{"x", {}, ""}, true},
                                    {FolderMark{"x", {{"config.yaml", {}}}, ""}, true},
                                    {FolderMark{"x", {}, kModelFolder}, false},
                                    {FolderMark{"x", {}, kPreprocessFolder}, false},
                                    {FolderMark{"x", {{"config.json", {}}}, ""}, false},
                                    {FolderMark{"x", {}, "a kind to come"}, false}}) {
    TinyRunFolder run;
    fs::create_directories(run.config.train.output);
    write_mark(run.config.train.output, mark);
    EXPECT_EQ(is_run(run.config.train.output), opens) << mark.kind;
    if (opens)
      EXPECT_EQ(RunFolder(run.config).run(), "x");
    else
      EXPECT_NE(message_of<UserError>([&] { RunFolder folder(run.config); }), "") << mark.kind;
  }
}

TEST(RunFolder, WhatHasANumberIsTheRunsToo) {
  TinyRunFolder run;
  write_mark(run.folder.path(), {"a run", {}, kRunFolder});
  for (const char* name : {"config.edited-1.yaml", "model.new-12", "model", "model/config.json"})
    EXPECT_EQ(run_that_owns(run.folder / name), fs::canonical(run.folder.path()).string()) << name;
  for (const char* name :
       {"config.edited-.yaml", "config.edited-x.yaml", "model.new-", "model.new-1b", "models", "config.json"})
    EXPECT_EQ(run_that_owns(run.folder / name), "") << name;
}

TEST(RunFolder, AStopThatWasLeftIsDroppedOnceAndOneThatComesLaterCounts) {
  TinyRunFolder run;
  fs::create_directories(run.config.train.output);
  write_mark(run.config.train.output, {"a run", {}, kRunFolder});
  request_stop(run.config.train.output);
  RunFolder folder(run.config);
  folder.hold();
  EXPECT_FALSE(stop_requested(run.config.train.output));
  request_stop(run.config.train.output);
  folder.hold();
  EXPECT_TRUE(stop_requested(run.config.train.output)) << "it was meant for this run";
  folder.check_there();
  fs::rename(run.config.train.output, run.folder / "elsewhere");
  EXPECT_NE(message_of<Error>([&] { folder.check_there(); }).find("is gone"), std::string::npos);
}

TEST(RunRecord, TheGlanceTakesWhatAResumeWouldTake) {
  TinyRunFolder run;
  run.config.checkpoint.every = 2;
  Trainer(run.config, Backend::cpu, run.log).run();
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

TEST(RunRecord, ANumberBelow0CountsNothing) {
  TemporaryFolder folder;
  TestState live(2);
  TrainState state = live.state();
  state.scalars = {{"step", -1}, {"tokens", 7}};
  CheckpointWriter writer;
  writer.save(folder.path(), 1, state, 0);
  writer.wait();
  const CheckpointReader reader(folder / "step_000001", true);
  EXPECT_EQ(checkpoint_scalar(reader, "tokens"), 7);
  EXPECT_NE(message_of<UserError>([&] { checkpoint_scalar(reader, "step"); }).find("it must be 0 or more"), std::string::npos);
}

}  // namespace test_run_folder
}  // namespace ravine
