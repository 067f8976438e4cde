// Tests of the messages on checkpoints that are saved, and on those that cannot be saved.
#include "runs/saves.h"

#include <filesystem>

#include "base/error.h"
#include "tests/unit/files_temporary.h"
#include "tests/unit/io_checkpoint_state.h"

namespace ravine {
namespace test_run_saves {

namespace fs = std::filesystem;

// One rank with a folder that it holds. Saves are due every 3 of 8 steps.
struct SavingRun {
  explicit SavingRun(int64_t from = 0, const std::string& resume = "auto") {
    config.train.output = base / "run";
    config.train.steps = 8;
    config.checkpoint.every = 3;
    config.checkpoint.resume = resume;
    folder = std::make_unique<RunFolder>(config);
    folder->hold();
    log.quiet(true);
    log.open(base / "log.txt");
    saves = std::make_unique<Saves>(config, log, ranks, *folder, SavedBytes{.checkpoint = 3 << 20, .model = 1 << 20}, 7, from);
    state.fill(1);
  }
  void save(int64_t step) {
    saves->save(step, state.state(), 0);
    saves->wait();
  }
  // A file where the folder of checkpoints should be: none can be written.
  void block() const { spill(config.train.output + "/checkpoints", ""); }
  std::string logged() const { return slurp(base / "log.txt"); }

  TemporaryFolder base;
  Config config;
  Log log;
  Ranks ranks;
  TestState state{16};  // outlives the saves, which read it
  std::unique_ptr<RunFolder> folder;
  std::unique_ptr<Saves> saves;
};

TEST(Saves, ACheckpointIsKnownOnceItIsComplete) {
  SavingRun run;
  EXPECT_FALSE(run.saves->newest());
  run.save(3);
  EXPECT_FALSE(run.saves->newest()) << "nothing is said before report";
  EXPECT_TRUE(run.saves->is_saved(3));
  EXPECT_EQ(run.saves->newest(), 3);
  EXPECT_NE(run.logged().find("saved    step_000003: "), std::string::npos) << run.logged();
  EXPECT_FALSE(run.saves->is_saved(4));
  EXPECT_EQ(run.saves->what_is_lost(3), "");
  EXPECT_EQ(run.logged().find("warning"), std::string::npos) << run.logged();
  EXPECT_NE(message_of<Stopped>([&] { run.saves->end_stopped(3); }).find("stopped after step 3, saved; the same command goes"),
            std::string::npos);
  EXPECT_NE(message_of<Error>([&] { run.saves->end_stopped(4); })
                .find("stopped after step 4, which was not saved; what is kept is " + run.config.train.output +
                      "/checkpoints/step_000003: once that is mended the same command goes on from there"),
            std::string::npos);
}

TEST(Saves, AFailureIsReportedWithTheTimeOfTheNextTry) {
  SavingRun run;
  run.block();
  run.save(3);
  run.saves->report(3);
  EXPECT_FALSE(run.saves->newest());
  EXPECT_NE(run.logged().find("; the next is tried after step 6, or when the run stops\n"), std::string::npos) << run.logged();
  const std::string stopped = message_of<Error>([&] { run.saves->end_stopped(4); });
  EXPECT_NE(stopped.find("stopped after step 4, which was not saved: "), std::string::npos) << stopped;
  EXPECT_NE(stopped.find("no checkpoint was saved before: once that is mended the same command begins anew; a checkpoint needs "
                         "3.0 MiB"),
            std::string::npos)
      << stopped;
  run.save(8);
  EXPECT_FALSE(run.saves->is_saved(8));
  const std::string logged = run.logged();
  EXPECT_EQ(logged.find("the next is tried", logged.find("the next is tried") + 1), std::string::npos)
      << "after the last is none";
  const std::string lost = run.saves->what_is_lost(8);
  EXPECT_NE(lost.find("the run was not saved, only its model is, in " + run.config.train.output + "/model: "),
            std::string::npos)
      << lost;
}

TEST(Saves, WhereItGoesOnFromCountsAsSaved) {
  SavingRun run(6, "elsewhere/step_000006");
  EXPECT_EQ(run.saves->newest(), 6);
  EXPECT_TRUE(run.saves->is_saved(6));
  EXPECT_NE(message_of<Stopped>([&] {
              run.saves->end_stopped(6);
            }).find("the same command with checkpoint.resume=auto goes on from there"),
            std::string::npos);
  EXPECT_NE(run.saves->what_is_kept().find("begins again at elsewhere/step_000006"), std::string::npos);
  SavingRun nothing;
  EXPECT_NE(message_of<Stopped>([&] { nothing.saves->end_stopped(0); }).find("stopped before the first step"),
            std::string::npos);
  nothing.config.checkpoint.every = 0;  // nobody asked for one
  EXPECT_EQ(nothing.saves->what_is_lost(8), "");
}

TEST(Saves, AFolderThatHasGoneIsNotMadeAgain) {
  SavingRun run;
  fs::rename(run.config.train.output, run.base / "moved");
  EXPECT_NE(message_of<Error>([&] { run.save(3); }), "");
  EXPECT_FALSE(fs::exists(run.config.train.output));
}

// Checkpoints of another program, as far as Saves asks.
struct OtherFiles : CheckpointFiles {
  void check(const Config&) const override {}
  std::string to_resume(const Config&) const override { return ""; }
  ForeignState open(const OpenedRun&, const std::string&) const override { return {}; }
  Publisher publisher(const OpenedRun&) const override { return {}; }
  std::string folder(const Config& config) const override { return config.train.output; }
  std::string how_to_go_on(const Config&) const override { return "their command"; }
  std::string pattern() const override { return "iter_*"; }
  bool exports_model() const override { return false; }
};

TEST(Saves, AStateThatCannotBePublishedStaysAndIsTriedAgain) {
  SavingRun run;
  run.config.checkpoint.layout = CheckpointLayout::megatron;
  const OtherFiles files;
  std::string problem = "no room";
  std::vector<int64_t> published;
  run.saves->publish_as(files, [&](const std::string& folder, int64_t step, const Json&) {
    EXPECT_TRUE(fs::exists(folder + "/manifest.json"));
    if (!problem.empty()) throw Error(problem);
    published.push_back(step);
    return fmt::format("iter_{}", step);
  });
  const std::string hidden = run.config.train.output + "/.saving/";
  run.save(3);
  EXPECT_TRUE(run.saves->is_saved(3)) << "the state is there";
  EXPECT_TRUE(run.saves->unpublished());
  EXPECT_NE(
      run.logged().find("warning: step 3 is saved in " + hidden +
                        "step_000003, and could not be written for checkpoint.layout=megatron: no room; it is tried again"),
      std::string::npos)
      << run.logged();
  EXPECT_NE(run.saves->what_is_kept().find(hidden.substr(0, hidden.size() - 1)), std::string::npos);
  EXPECT_NE(run.saves->what_is_lost(3).find("step 3 is saved in " + hidden + "step_000003 alone"), std::string::npos);
  run.save(6);
  run.saves->report(6);
  EXPECT_FALSE(fs::exists(hidden + "step_000003")) << "the newest stays";
  EXPECT_TRUE(fs::exists(hidden + "step_000006"));
  EXPECT_NE(message_of<Stopped>([&] { run.saves->end_stopped(6); }).find("the same command goes on from there"),
            std::string::npos);
  problem.clear();
  run.save(8);
  EXPECT_TRUE(run.saves->is_saved(8));
  EXPECT_FALSE(run.saves->unpublished());
  EXPECT_EQ(published, std::vector<int64_t>{8});
  EXPECT_FALSE(fs::exists(hidden + "step_000006") || fs::exists(hidden + "step_000008"));
  EXPECT_EQ(run.saves->command_that_goes_on(), "their command");
  EXPECT_EQ(run.saves->what_is_lost(8), "");
}

}  // namespace test_run_saves
}  // namespace ravine
