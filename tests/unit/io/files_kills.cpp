// A kill at each single system call: at every moment the old or the new is there, whole, and what is others' stays.
#include <gtest/gtest.h>

#include "files/atomic.h"
#include "files/temporary.h"
#include "io/checkpoint.h"
#include "tests/unit/files_temporary.h"
#include "tests/unit/io_checkpoint_state.h"
#include "tests/unit/traced_child.h"

using namespace ravine;
namespace fs = std::filesystem;

namespace test_files_kills {

void no_warning(const std::string& text) { ADD_FAILURE() << text; }

void save(const std::string& dir, int64_t step, int64_t content, int64_t keep) {
  TestState live(3);
  live.fill(content);
  CheckpointWriter writer;
  writer.save(dir, step, live.state(), keep);
  writer.wait();
  if (auto warning = writer.take_warning()) throw std::runtime_error(*warning);
}

// Files that a user may have put into the folder, under names that look like temporaries.
const std::vector<std::string>& foreign_names() {
  static const std::vector<std::string> names{"mine.tmp",
                                              "model.tmp",
                                              "model.old",
                                              "step_000020.tmp",
                                              "step_000020.parts.tmp",
                                              "step_000010.old.tmp",
                                              "notes.tmp-1",
                                              "model.ravine-0123456789abcdef01234567.tmp",
                                              "step_000020.ravine-0123456789abcdef01234567.old"};
  return names;
}

void add_foreign(const std::string& folder) {
  for (const std::string& name : foreign_names()) {
    fs::create_directories(folder + "/" + name);
    spill(folder + "/" + name + "/dear", name);
  }
}

void expect_foreign(const std::string& folder) {
  for (const std::string& name : foreign_names()) EXPECT_EQ(slurp(folder + "/" + name + "/dear"), name);
}

void replace_folder(const std::string& path) {
  AtomicFolder building(path);
  spill(building.folder() + "/a", "new");
  fs::create_directory(building.folder() + "/sub");
  spill(building.folder() + "/sub/b", "new");
  building.commit([](const std::string&) {});
}

void kill_replacements(bool exchange) {
  int moments = 0, old_seen = 0, new_seen = 0;
  for (int n = 1;; ++n) {
    TemporaryFolder folder;
    const std::string path = folder / "model";
    fs::create_directories(path + "/sub");
    spill(path + "/a", "old");
    spill(path + "/sub/b", "old");
    add_foreign(folder.path());
    const TracedChild child = trace_child(n, [&] {
      if (!exchange && !refuse_exchange()) ::_exit(77);
      replace_folder(path);
    });
    if (!child.possible || (!child.killed && child.status == 77)) GTEST_SKIP() << "no tracing here";
    remove_leftovers(folder.path());
    const std::string a = slurp(path + "/a"), b = slurp(path + "/sub/b");
    EXPECT_TRUE(a == b && (a == "old" || a == "new")) << "call " << n << ": '" << a << "' and '" << b << "'";
    EXPECT_EQ(folder.count(), 1 + static_cast<int>(foreign_names().size())) << "call " << n << ", " << child.calls.back();
    expect_foreign(folder.path());
    ++(a == "old" ? old_seen : new_seen);
    if (!child.killed) {
      EXPECT_EQ(child.status, 0);
      EXPECT_EQ(a, "new");
      break;
    }
    ++moments;
    ASSERT_LT(n, 200);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(moments, 12);
  EXPECT_GT(old_seen, 5);
  EXPECT_GT(new_seen, 1);
}

TEST(Kills, AFolderThatIsReplaced) { kill_replacements(true); }
TEST(Kills, AFolderThatIsReplacedWithoutExchange) { kill_replacements(false); }

// Step 20 is saved again, and 10 goes.
void kill_saves(bool exchange) {
  int moments = 0;
  for (int n = 1;; ++n) {
    TemporaryFolder folder;
    const std::string dir = folder / "checkpoints";
    save(dir, 10, 10, 0);
    save(dir, 20, 1, 0);
    add_foreign(dir);
    const TracedChild child = trace_child(n, [&] {
      if (!exchange && !refuse_exchange()) ::_exit(77);
      clean_leftovers(dir);
      save(dir, 20, 2, 1);
    });
    if (!child.possible || (!child.killed && child.status == 77)) GTEST_SKIP() << "no tracing here";
    clean_leftovers(dir);
    const auto newest = newest_checkpoint(dir, no_warning);
    ASSERT_EQ(newest.value_or(""), dir + "/step_000020") << "call " << n << ", " << child.calls.back();
    TestState back(3);
    back.load(CheckpointReader(*newest, true));
    EXPECT_TRUE(back.difference(1).empty() || back.difference(2).empty()) << "call " << n;
    for (const auto& entry : fs::directory_iterator(dir)) {
      const std::string name = entry.path().filename().string();
      EXPECT_TRUE(name == "latest" || checkpoint_step(name) ||
                  std::find(foreign_names().begin(), foreign_names().end(), name) != foreign_names().end())
          << name << " stays after call " << n << ", " << child.calls.back();
    }
    expect_foreign(dir);
    if (!child.killed) {
      EXPECT_EQ(child.status, 0);
      EXPECT_EQ(back.difference(2), "");
      EXPECT_FALSE(fs::exists(dir + "/step_000010"));
      break;
    }
    ++moments;
    ASSERT_LT(n, 300);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(moments, 15);
}

TEST(Kills, ACheckpointThatIsSavedAgain) { kill_saves(true); }
TEST(Kills, ACheckpointThatIsSavedAgainWithoutExchange) { kill_saves(false); }

TEST(Kills, WhatIsTouchedIsOurs) {
  TemporaryFolder folder;
  const std::string dir = folder / "run/checkpoints";
  const TracedChild child = trace_child(0, [&] {
    save(dir, 10, 1, 1);
    save(dir, 20, 1, 1);
  });
  if (!child.possible) GTEST_SKIP() << "no tracing here";
  ASSERT_EQ(child.status, 0);
  // The folder of the checkpoints, and its parent, are on the disk before anything is said to be saved.
  auto call_index = [&](const std::string& call) {
    return std::find(child.calls.begin(), child.calls.end(), call) - child.calls.begin();
  };
  const auto end = static_cast<std::ptrdiff_t>(child.calls.size());
  for (const std::string& made : {folder / "run", dir}) {
    const auto made_at = call_index("mkdir " + made), synced = call_index("fsync " + folder_of(made));
    EXPECT_TRUE(made_at < synced && synced < end)
        << made << ": made at " << made_at << ", its name synced at " << synced << " of " << end;
  }
  // No name is removed that was not made in here, and what has a guessable name never is created in place.
  for (const std::string& call : child.calls) {
    const bool checked = call.starts_with("create ") || call.starts_with("unlink ");
    EXPECT_TRUE(!checked || call.find(".ravine-") != std::string::npos) << call;
  }
  // A writer that lives is left alone.
  AtomicFolder living(folder / "run/model");
  remove_leftovers(folder / "run");
  EXPECT_TRUE(fs::exists(living.folder()));
}

}  // namespace test_files_kills
