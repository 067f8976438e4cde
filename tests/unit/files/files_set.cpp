// Sets of files that are replaced together, marks of outputs, looks at a lock.
#include "files/file_set.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <thread>

#include "files/folder_lock.h"
#include "files/npy.h"
#include "files/temporary.h"
#include "tests/unit/files_temporary.h"
#include "tests/unit/traced_child.h"

using namespace ravine;
namespace fs = std::filesystem;

namespace test_files_set {

const FileSetKind kKind{"test files", {"a", "b", "old"}, {"sub"}};

// The set of before has a, b and old; the new one a, b and the folder sub.
void write_set(const std::string& journal, bool overwrite) {
  FileSet set(journal, kKind);
  for (const char* name : {"a", "b"}) spill(set.folder() + "/" + name, "new");
  fs::create_directories(set.folder() + "/sub");
  spill(set.folder() + "/sub/c", "new");
  set.commit({"a", "b", "sub"}, overwrite);
}

// Returns the state that a reader of the set sees: "old", "new" or "unfinished".
std::string seen(const TemporaryFolder& folder) {
  try {
    refuse_unfinished(folder / "set.replacing");
  } catch (const UserError&) {
    return "unfinished";
  }
  if (slurp(folder / "a") == "old" && slurp(folder / "b") == "old" && slurp(folder / "old") == "old" && !folder.has("sub"))
    return "old";
  if (slurp(folder / "a") == "new" && slurp(folder / "b") == "new" && slurp(folder / "sub/c") == "new" && !folder.has("old"))
    return "new";
  return "torn: " + slurp(folder / "a") + " " + slurp(folder / "b") + " " + slurp(folder / "old") + " " +
         slurp(folder / "sub/c");
}

bool has_both(const TemporaryFolder& folder) {
  bool has_old = false, has_new = false;
  for (const char* name : {"a", "b", "old", "sub/c"}) {
    has_old = has_old || slurp(folder / name) == "old";
    has_new = has_new || slurp(folder / name) == "new";
  }
  return has_old && has_new;
}

TEST(FileSet, AKillAtAnyMoment) {
  std::map<std::string, int> count;
  for (int n = 1;; ++n) {
    TemporaryFolder folder;
    for (const char* name : {"a", "b", "old"}) spill(folder / name, "old");
    spill(folder / "mine", "dear");
    const TracedChild child = trace_child(n, [&] { write_set(folder / "set.replacing", true); });
    if (!child.possible) GTEST_SKIP() << "no tracing here";
    const std::string found = seen(folder);
    ++count[found];
    ASSERT_TRUE(found == "old" || found == "new" || found == "unfinished")
        << "call " << n << ", " << child.calls.back() << ": " << found;
    EXPECT_FALSE(has_both(folder)) << "call " << n << ", " << child.calls.back();
    const bool ended = finish_file_set(folder / "set.replacing", kKind);
    EXPECT_EQ(ended, found == "unfinished");
    EXPECT_EQ(seen(folder), found == "old" ? "old" : "new") << "call " << n;
    { FileSet clean(folder / "set.replacing", kKind); }
    EXPECT_EQ(folder.count(), 4) << "call " << n << ", " << child.calls.back();  // a b and old or sub, mine
    EXPECT_EQ(slurp(folder / "mine"), "dear");
    if (!child.killed) {
      EXPECT_EQ(child.status, 0);
      EXPECT_EQ(found, "new");
      break;
    }
    ASSERT_LT(n, 200);
  }
  EXPECT_GT(count["old"], 5);
  EXPECT_GT(count["unfinished"], 5);
}

// Makes a folder with a, b and old, in which a writer of a new set was killed. `calls` is the number of its system
// calls after the journal had its name.
void be_killed(const TemporaryFolder& folder, int calls) {
  for (const char* name : {"a", "b", "old"}) spill(folder / name, "old");
  const TracedChild whole = trace_child(0, [&] { write_set(folder / "set.replacing", true); });
  if (!whole.possible) GTEST_SKIP() << "no tracing here";
  int n = 0;
  while (whole.calls[static_cast<size_t>(n)].find("set.replacing", whole.calls[static_cast<size_t>(n)].rfind('/')) ==
             std::string::npos ||
         !whole.calls[static_cast<size_t>(n)].ends_with("/set.replacing"))
    ++n;
  fs::remove_all(folder / "sub");
  for (const char* name : {"a", "b", "old"}) fs::remove(folder / name), spill(folder / name, "old");
  trace_child(n + 2 + calls, [&] { write_set(folder / "set.replacing", true); });
  ASSERT_TRUE(folder.has("set.replacing/.set.json"));
}

std::map<std::string, std::string> content(const TemporaryFolder& folder) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(folder.path()))
    all[entry.path().lexically_relative(folder.path()).string()] = entry.is_regular_file() ? slurp(entry.path().string()) : "";
  return all;
}

TEST(FileSet, NothingIsOverwrittenUnasked) {
  TemporaryFolder folder;
  spill(folder / "b", "dear");
  EXPECT_NE(message_of<UserError>([&] { write_set(folder / "set.replacing", false); }).find(folder / "b"), std::string::npos);
  EXPECT_EQ(slurp(folder / "b"), "dear");
  EXPECT_EQ(folder.count(), 1);
}

TEST(FileSet, WhatTheUserPutThereLaterStays) {
  // calls 0: nothing has gone; further on old ones have, and new ones have come.
  for (int calls = 0; calls < 8; ++calls)
    for (const char* name : {"a", "b", "old", "sub"}) {
      TemporaryFolder folder;
      be_killed(folder, calls);
      if (HasFatalFailure() || IsSkipped()) return;
      const bool folder_of_set = name == std::string("sub");
      fs::remove_all(folder / name);
      if (folder_of_set)
        fs::create_directory(folder / name), spill(folder / "sub/mine", "dear");
      else
        spill(folder / name, "dear");
      const auto before = content(folder);
      EXPECT_NE(message_of<UserError>([&] { finish_file_set(folder / "set.replacing", kKind); }).find(folder / name),
                std::string::npos)
          << calls << " " << name;
      EXPECT_NE(message_of<UserError>([&] { FileSet again(folder / "set.replacing", kKind); }).find("set.replacing"),
                std::string::npos);
      EXPECT_EQ(content(folder), before) << calls << " " << name;
    }
}

TEST(FileSet, WhatWaitsIsWhatWasWritten) {
  for (const char* name : {"a", "sub", "mine"}) {
    TemporaryFolder folder;
    be_killed(folder, 0);
    if (HasFatalFailure() || IsSkipped()) return;
    const std::string waits = folder / (std::string("set.replacing/") + name);
    fs::remove_all(waits);
    spill(waits, "dear");
    const auto before = content(folder);
    EXPECT_NE(message_of<UserError>([&] { finish_file_set(folder / "set.replacing", kKind); }).find(waits), std::string::npos)
        << name;
    EXPECT_EQ(content(folder), before) << name;
  }
}

TEST(FileSet, AJournalNamesOnlyItsKindsNames) {
  const char* form = R"({{"format":"ravine-file-set","version":{},"kind":"{}","overwrite":true,"new":[{}],"old":[{}]}})";
  auto entry = [](const std::string& name, const std::string& path) {
    struct stat s {};
    ::stat(path.c_str(), &s);
    return fmt::format(R"({{"name":"{}","bytes":{},"changed":{},"file":{}}})", name, s.st_size,
                       int64_t{s.st_mtim.tv_sec} * 1'000'000'000 + s.st_mtim.tv_nsec, s.st_ino);
  };
  for (const std::string victim : {"notes", "../notes", "/etc/notes", "sub/c", "..", "."}) {
    TemporaryFolder folder;
    fs::create_directories(folder / "d/set.replacing");
    fs::create_directories(folder / "d/sub");
    for (const char* file : {"notes", "d/notes", "d/sub/c"}) spill(folder / file, "dear");
    for (const bool as_new : {false, true}) {
      const std::string named = entry(victim, folder / ("d/" + victim));
      spill(folder / "d/set.replacing/.set.json",
            fmt::format(fmt::runtime(form), 2, "test files", as_new ? named : "", as_new ? "" : named));
      const auto before = content(folder);
      EXPECT_NE(message_of<UserError>([&] { finish_file_set(folder / "d/set.replacing", kKind); }).find("move it away"),
                std::string::npos)
          << victim;
      EXPECT_EQ(content(folder), before) << victim;
    }
  }
  TemporaryFolder folder;
  spill(folder / "a", "dear");
  fs::create_directory(folder / "set.replacing");
  spill(folder / "set.replacing/.set.json", fmt::format(fmt::runtime(form), 2, "others", "", entry("a", folder / "a")));
  EXPECT_NE(message_of<UserError>([&] { finish_file_set(folder / "set.replacing", kKind); }).find("another kind"),
            std::string::npos);
  EXPECT_EQ(slurp(folder / "a"), "dear");
}

TEST(FileSet, FoldersOfItsNamesAreRefusedBeforeAnythingMoves) {
  for (const bool filled : {false, true})
    for (const std::string name : {"a", "b", "old"}) {
      TemporaryFolder folder;
      for (const std::string other : {"a", "b", "old"})
        if (other != name) spill(folder / other, "old");
      fs::create_directory(folder / name);
      if (filled) spill(folder / (name + "/mine"), "dear");
      const auto before = content(folder);
      EXPECT_NE(message_of<UserError>([&] { write_set(folder / "set.replacing", true); }).find(folder / name),
                std::string::npos);
      EXPECT_EQ(content(folder), before) << name;
    }
  TemporaryFolder folder;
  fs::create_directory(folder / "set.replacing");  // an empty one is the user's too
  EXPECT_NE(message_of<UserError>([&] { write_set(folder / "set.replacing", true); }).find("move it away"), std::string::npos);
  EXPECT_TRUE(folder.has("set.replacing"));
}

TEST(FileSet, OneProcessEndsWhatWasBegun) {
  TemporaryFolder folder;
  be_killed(folder, 2);
  if (HasFatalFailure() || IsSkipped()) return;
  Fd other(::open((folder / "set.replacing").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(::flock(*other, LOCK_EX | LOCK_NB), 0);
  const auto before = content(folder);
  EXPECT_NE(message_of<UserError>([&] { finish_file_set(folder / "set.replacing", kKind); }).find("another process"),
            std::string::npos);
  EXPECT_EQ(content(folder), before);
  other.close();
  EXPECT_TRUE(finish_file_set(folder / "set.replacing", kKind));
  EXPECT_EQ(seen(folder), "new");
}

// The later writer removes its own journal: no file waits for its name afterwards, and the folder has one complete set.
TEST(FileSet, TheLaterProcessStandsBack) {
  for (const bool overwrite : {false, true}) {
    TemporaryFolder folder;
    for (const char* name : {"a", "b", "old"})
      if (overwrite) spill(folder / name, "old");
    const FileSetKind kind{"test files", {"a", "b", "old"}};
    auto write = [&](const char* text) {
      FileSet set(folder / "set.replacing", kind);
      for (const char* name : {"a", "b"}) spill(set.folder() + "/" + name, text);
      set.commit({"a", "b"}, overwrite);
    };
    bool came = false;
    const TracedChild late = trace_child(
        0, [&] { write("late"); },
        [&](const std::string& call) {
          if (!came && call.starts_with("rename ") && call.ends_with("/set.replacing")) came = true, write("first");
        });
    if (!late.possible) GTEST_SKIP() << "no tracing here";
    EXPECT_TRUE(came);
    EXPECT_EQ(late.status, 9) << "it says so";
    EXPECT_NO_THROW(refuse_unfinished(folder / "set.replacing"));
    EXPECT_TRUE(slurp(folder / "a") == "first" && slurp(folder / "b") == "first");
    EXPECT_EQ(folder.count(), 2);
  }
}

TEST(FileSet, OfTwoWritersOneIsLate) {
  TemporaryFolder folder;
  for (const char* name : {"a", "b", "old"}) spill(folder / name, "old");
  const FileSetKind kind{"test files", {"a", "b", "old"}};
  for (int round = 0; round < 20; ++round) {
    std::vector<pid_t> writers;
    for (const char* text : {"one", "two"}) {
      writers.push_back(::fork());
      if (writers.back() != 0) continue;
      int status = 0;
      try {
        FileSet set(folder / "set.replacing", kind);
        for (const char* name : {"a", "b"}) spill(set.folder() + "/" + name, text);
        set.commit({"a", "b"}, true);
      } catch (const UserError&) {
        status = 2;
      } catch (...) {
        status = 3;
      }
      ::_exit(status);
    }
    int ended = 0;
    for (const pid_t writer : writers) {
      int status = 0;
      ASSERT_EQ(::waitpid(writer, &status, 0), writer);
      ASSERT_TRUE(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 2)) << status;
      ended += WEXITSTATUS(status) == 0;
    }
    EXPECT_GE(ended, 1) << "round " << round;
    EXPECT_NO_THROW(refuse_unfinished(folder / "set.replacing")) << "round " << round;
    EXPECT_TRUE(slurp(folder / "a") == slurp(folder / "b") && slurp(folder / "a") != "old" && !folder.has("old"))
        << "round " << round << ": " << slurp(folder / "a") << " " << slurp(folder / "b");
    if (HasFailure()) return;
  }
}

TEST(FileSet, NamesThatAreNotUtf8) {
  TemporaryFolder folder;
  const std::string name =
      "\xff"
      "a.bin";
  FileSet set(folder / "set.replacing", {"test files", {name}});
  spill(set.folder() + "/" + name, "new");
  set.commit({name}, true);
  EXPECT_EQ(slurp(folder / name), "new");
  EXPECT_EQ(folder.count(), 1);
}

TEST(FileSet, AFolderOfThatNameThatIsNotOurs) {
  for (const std::string text :
       {"", "{}", R"({"format":"ravine-file-set","version":1,"names":["a"],"gone":[],"overwrite":true})",
        R"({"format":"ravine-file-set","version":2,"kind":"test files","new":7,"old":[],"overwrite":true})"}) {
    TemporaryFolder folder;
    fs::create_directories(folder / "set.replacing");
    spill(folder / "set.replacing/notes", "dear");
    spill(folder / "set.replacing/.set.json", text);
    EXPECT_NE(message_of<UserError>([&] { finish_file_set(folder / "set.replacing", kKind); }).find("move it away"),
              std::string::npos);
    EXPECT_EQ(slurp(folder / "set.replacing/notes"), "dear");
  }
}

TEST(FolderLock, OfAFolderThatWasReplacedRemovesNoOther) {
  TemporaryFolder folder;
  fs::create_directory(folder / "a");
  std::optional<FolderLock> first(std::in_place, folder / "a"), second;
  fs::rename(folder / "a", folder / "b");
  fs::create_directory(folder / "a");
  second.emplace(folder / "a");
  first.reset();
  EXPECT_TRUE(folder_holder(folder / "a").has_value());
  second.reset();
  EXPECT_FALSE(folder.has("a/.lock"));
}

TEST(FolderLock, ALookDoesNotStopAStart) {
  TemporaryFolder folder;
  spill(folder / ".lock", "ravine lock: process 17 host\n");
  Fd look(::open((folder / ".lock").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(*look, LOCK_SH | LOCK_NB), 0);  // as folder_holder has it for an instant
  std::thread ends([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    ::flock(*look, LOCK_UN);
  });
  EXPECT_NO_THROW({ FolderLock lock(folder.path()); });
  ends.join();
  FolderLock holds(folder.path());
  EXPECT_TRUE(folder_holder(folder.path()).has_value());
  EXPECT_NE(message_of<UserError>([&] { FolderLock second(folder.path()); }).find("in use"), std::string::npos);
}

}  // namespace test_files_set
