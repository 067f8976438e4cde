// Checkpoint folders of steps: their names, their run, and their removal.
#include "styles/step_folders.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "files/temporary.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_step_folders {

namespace fs = std::filesystem;

const StepNames kSeven{.before = "iter_", .digits = 7}, kPlain{.before = "checkpoint-"};

void make(const std::string& folder, const std::string& run) {
  fs::create_directories(folder + "/mp_rank_00");
  spill(folder + "/mp_rank_00/a.pt", "12345");
  if (!run.empty()) mark_as_made(folder, run, fs::path(folder).filename().string());
}

TEST(StepNames, ReadTheirOwnNamesOnly) {
  EXPECT_EQ(kSeven.name(12), "iter_0000012");
  EXPECT_EQ(kSeven.name(123456789), "iter_123456789");
  EXPECT_EQ(kPlain.name(12), "checkpoint-12");
  for (const int64_t step : {int64_t{0}, int64_t{12}, int64_t{9999999}, int64_t{10000000}, int64_t{123456789012}}) {
    EXPECT_EQ(kSeven.step(kSeven.name(step)), step);
    EXPECT_EQ(kPlain.step(kPlain.name(step)), step);
  }
  for (const char* other : {"iter_12", "iter_00000012", "iter_", "iter_000001x", "iter_-000012", "iter_1234567890123",
                            "release", "xiter_0000012", "iter_0000012.new"})
    EXPECT_FALSE(kSeven.step(other)) << other;
  for (const char* other : {"checkpoint-012", "checkpoint-", "checkpoint-1.5"}) EXPECT_FALSE(kPlain.step(other)) << other;
  TemporaryFolder f;
  for (const char* name : {"iter_0000012", "iter_0000002", "iter_7", "other"}) fs::create_directories(f / name);
  EXPECT_EQ(kSeven.steps_in(f.path()), (std::vector<int64_t>{2, 12}));
  EXPECT_TRUE(kSeven.steps_in(f / "none").empty());
}

TEST(StepFolders, MayGoAsTheyWereMade) {
  TemporaryFolder f;
  make(f / "own", "me"), make(f / "theirs", "you"), make(f / "bare", "");
  EXPECT_TRUE(may_go(f / "own", "me"));
  for (const char* other : {"theirs", "bare", "none"}) {
    EXPECT_FALSE(may_go(f / other, "me")) << other;
    EXPECT_THROW(replaces_own("me")(f / other), UserError) << other;
  }
  EXPECT_FALSE(is_of_run(f / "bare", "")) << "nobody's";
  spill(f / "own/mp_rank_00/a.pt", "123456");
  EXPECT_TRUE(is_of_run(f / "own", "me"));
  EXPECT_FALSE(may_go(f / "own", "me")) << "a file has another size";
  spill(f / "own/mp_rank_00/a.pt", "12345");
  spill(f / "own/mp_rank_00/notes.txt", "");
  EXPECT_FALSE(may_go(f / "own", "me")) << "a file more";
  fs::remove(f / "own/mp_rank_00/notes.txt");
  replaces_own("me")(f / "own");
  spill(f / "own/mp_rank_00/a.pt", "54321");
  EXPECT_FALSE(may_go(f / "own", "me")) << "other bytes of the same size";
  spill(f / "own/mp_rank_00/a.pt", "12345");
  for (const bool old : {true, false}) {  // AtomicFolder checks the renamed folder again
    const std::string parked = temporary_path(f / "own", random_digits(), old);
    fs::rename(f / "own", parked);
    replaces_own("me")(parked);
    fs::rename(parked, f / "own");
  }
}

TEST(StepFolders, ACopyUnderAnotherNameAndALinkAreNotTheRuns) {
  TemporaryFolder f;
  make(f / kSeven.name(2), "me");
  fs::copy(f / kSeven.name(2), f / kSeven.name(4), fs::copy_options::recursive);
  fs::create_directory_symlink(f / kSeven.name(2), f / kSeven.name(6));
  fs::rename(f / kSeven.name(2), f / "other"), fs::create_directory_symlink(f / "other", f / kSeven.name(2));
  for (const int64_t step : {2, 4, 6}) {
    EXPECT_FALSE(is_of_run(f / kSeven.name(step), "me")) << step;
    EXPECT_FALSE(may_go(f / kSeven.name(step), "me")) << step;
  }
  keep_newest(f.path(), kSeven, "me", 8, 1);
  EXPECT_EQ(kSeven.steps_in(f.path()), (std::vector<int64_t>{2, 4, 6}));
  Config c;
  c.train.output = f.path(), c.train.steps = 5;
  EXPECT_EQ(foreign_ahead(c, kSeven, "me", f / kSeven.name(2)), f / kSeven.name(4));
  EXPECT_EQ(foreign_ahead(c, kSeven, "me", f / kSeven.name(4)), "") << "6 is beyond its last step";
  c.train.epochs = 2;  // with epochs the last step is not known yet
  EXPECT_EQ(foreign_ahead(c, kSeven, "me", f / kSeven.name(4)), f / kSeven.name(6));
}

TEST(StepFolders, TheLimitCountsTheRunsOwnUpToTheStep) {
  TemporaryFolder f;
  const auto left = [&] { return kSeven.steps_in(f.path()); };
  for (const int64_t step : {2, 4, 6, 8, 10}) make(f / kSeven.name(step), step == 4 ? "you" : "me");
  keep_newest(f.path(), kSeven, "me", 8, 0);
  EXPECT_EQ(left().size(), 5U) << "no limit";
  keep_newest(f.path(), kSeven, "me", 8, 2);
  EXPECT_EQ(left(), (std::vector<int64_t>{4, 6, 8, 10})) << "of 2, 6 and 8 one goes; 10 is of a run that was set back";
  spill(f / (kSeven.name(6) + "/notes.txt"), "mine");
  keep_newest(f.path(), kSeven, "me", 8, 1);
  EXPECT_EQ(left(), (std::vector<int64_t>{4, 6, 8, 10})) << "one with notes stays";
  fs::remove(f / (kSeven.name(6) + "/notes.txt"));
  keep_newest(f.path(), kSeven, "me", 8, 1);
  EXPECT_EQ(left(), (std::vector<int64_t>{4, 8, 10}));
}

}  // namespace test_step_folders
}  // namespace ravine
