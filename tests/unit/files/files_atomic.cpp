#include "files/atomic.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <utility>

#include "files/checksum.h"
#include "files/folder_lock.h"
#include "files/temporary.h"
#include "tests/unit/files_temporary.h"
#include "tests/unit/traced_child.h"

using namespace ravine;
namespace fs = std::filesystem;

namespace test_files_atomic {

// Runs f in a child process and returns its exit status, or 1000 + the signal that ended it.
int in_child(const std::function<int()>& f) {
  const pid_t child = ::fork();
  if (child == 0) {
    int status = 99;
    try {
      status = f();
    } catch (...) {
    }
    ::_exit(status);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST(Folders, ALinkToNothingAndAnEmptyNameAreNamed) {
  TemporaryFolder folder;
  const std::string link = folder / "link";
  std::filesystem::create_symlink(folder / "nowhere", link);
  for (const std::string& path : {link, link + "/", link + "/inner"}) {
    const std::string message = message_of<UserError>([&] { create_folders(path); });
    EXPECT_NE(message.find("link to '" + (folder / "nowhere") + "', which is not there"), std::string::npos) << message;
    EXPECT_NE(message.find(link), std::string::npos) << message;
  }
  EXPECT_NE(message_of<UserError>([] { create_folders(""); }).find("the name of a folder is empty"), std::string::npos);
  std::filesystem::create_directory(folder / "nowhere");
  create_folders(link + "/inner");
  EXPECT_TRUE(std::filesystem::is_directory(folder / "nowhere/inner"));
}

TEST(AtomicFile, AppearsWholeAndOnlyAtCommit) {
  TemporaryFolder folder;
  const std::string path = folder / "f";
  spill(path, "old");
  {
    AtomicFile file(path);
    file.write("new ");
    file.write(std::string(3'000'000, 'x'));
    file.write(" end");
    EXPECT_EQ(slurp(path), "old");
    EXPECT_EQ(file.size(), 3'000'008);
    file.commit();
    EXPECT_EQ(slurp(path), "new " + std::string(3'000'000, 'x') + " end");
    EXPECT_THROW(file.commit(), Error);
    EXPECT_THROW(file.write("more"), Error);
  }
  EXPECT_EQ(folder.count(), 1);
}

// Asked when all is written and synced; who comes after the question is asked about, too.
TEST(AtomicFile, WhatCameWhileItWasWrittenStays) {
  TemporaryFolder folder;
  const std::string path = folder / "f";
  auto theirs = [](const std::string& at) {
    if (slurp(at) == "dear") throw UserError("output exists", at, "it is somebody's", "choose another name");
  };
  for (const bool had : {false, true})
    for (const bool late : {false, true}) {
      fs::remove(path);
      if (had) spill(path, "ours");
      bool came = false;
      EXPECT_THROW(write_file_atomic(path, "new",
                                     [&](const std::string& at) {
                                       if (!late) spill(at, "dear");
                                       theirs(at);
                                       if (!std::exchange(came, true)) fs::remove(at), spill(at, "dear");
                                     }),
                   UserError)
          << had << late;
      EXPECT_EQ(slurp(path), "dear");
      EXPECT_EQ(folder.count(), 1);
    }
  fs::remove(path);
  write_file_atomic(path, "new", theirs);
  write_file_atomic(path, "newer", theirs);
  EXPECT_EQ(slurp(path), "newer");
}

// The rule for a file that a flag names: whatever is there stays, unless --overwrite.
TEST(AtomicFile, AFileThatIsThereIsReplacedOnlyOnRequest) {
  TemporaryFolder folder;
  const std::string path = folder / "f";
  refuse_existing_file(path, false);
  write_file_atomic(path, "ours", may_overwrite(false));
  spill(folder / "empty", "");
  spill(folder / "dear", "dear");
  fs::create_symlink(folder / "dear", folder / "link");
  fs::create_symlink(folder / "nowhere", folder / "dangling");
  for (const std::string name : {"f", "empty", "dear", "link", "dangling"}) {
    const std::string at = folder / name;
    for (const auto& check : {std::function([&] { refuse_existing_file(at, false); }),
                              std::function([&] { write_file_atomic(at, "new", may_overwrite(false)); })}) {
      const std::string text = message_of<UserError>(check);
      EXPECT_TRUE(text.find(at) != std::string::npos && text.find("--overwrite") != std::string::npos) << text;
    }
    refuse_existing_file(at, true);
  }
  EXPECT_EQ(slurp(path), "ours");
  for (const std::string name : {"f", "empty", "link", "dangling"}) {
    write_file_atomic(folder / name, "new", may_overwrite(true));
    EXPECT_FALSE(fs::is_symlink(fs::symlink_status(folder / name)));
    EXPECT_EQ(slurp(folder / name), "new");
  }
  EXPECT_EQ(slurp(folder / "dear"), "dear") << "what a link leads to stays";
  EXPECT_FALSE(fs::exists(folder / "nowhere"));
  refuse_existing_file("/dev/null", false);  // AtomicFile says what it is
  EXPECT_NE(message_of<UserError>([] { write_file_atomic("/dev/null", "x", may_overwrite(false)); }).find("name a file"),
            std::string::npos);
}

TEST(AtomicFile, LeavesNothingWithoutCommit) {
  TemporaryFolder folder;
  spill(folder / "f", "old");
  {
    AtomicFile file(folder / "f");
    file.write(std::string(2'000'000, 'x'));
    EXPECT_LE(folder.count(), 2);  // 1 where the file system has files without names
  }
  EXPECT_EQ(slurp(folder / "f"), "old");
  EXPECT_EQ(folder.count(), 1);
}

TEST(AtomicFile, AKilledWriterLeavesTheOldFile) {
  TemporaryFolder folder;
  spill(folder / "f", "old");
  EXPECT_EQ(in_child([&] {
              AtomicFile file(folder / "f");
              file.write(std::string(2'000'000, 'x'));
              ::kill(::getpid(), SIGKILL);
              return 0;
            }),
            1000 + SIGKILL);
  EXPECT_EQ(slurp(folder / "f"), "old");
  EXPECT_LE(folder.count(), 2);
  spill(folder / "f.tmp-1", "");
  fs::create_directory(folder / "step_1.tmp");
  remove_leftovers(folder.path());
  EXPECT_EQ(folder.count(), 3);
  EXPECT_TRUE(folder.has("f.tmp-1") && folder.has("step_1.tmp"));  // not ours
}

TEST(AtomicFile, NoRoomIsDiskFullAndTheOldFileStays) {
  TemporaryFolder folder;
  const std::string path = folder / "f";
  spill(path, "old");
  EXPECT_EQ(in_child([&] {
              ::signal(SIGXFSZ, SIG_IGN);
              const rlimit limit{1'500'000, 1'500'000};
              ::setrlimit(RLIMIT_FSIZE, &limit);
              try {
                AtomicFile file(path);
                file.write(std::string(2'000'000, 'x'));
                file.commit();
              } catch (const DiskFull& e) {
                return e.path == path && std::string(e.what()).find(path) != std::string::npos ? 7 : 8;
              }
              return 9;
            }),
            7);
  EXPECT_EQ(slurp(path), "old");
  EXPECT_EQ(folder.count(), 1);
  Fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  if (full) {
    EXPECT_THROW(write_all(*full, std::as_bytes(std::span("x")), "full"), DiskFull);
  }
}

TEST(AtomicFile, PathsThatCannotBeUsedAreTheUsersMistake) {
  TemporaryFolder folder;
  for (const std::string& path : {folder / "missing/f", folder.path()}) {
    const std::string text = message_of<UserError>([&] { write_file_atomic(path, "x"); });
    EXPECT_NE(text.find(path), std::string::npos) << text;
  }
  EXPECT_EQ(folder.count(), 0);
}

TEST(AtomicFolder, AppearsAtCommit) {
  TemporaryFolder folder;
  const std::string path = folder / "step_1";
  {
    AtomicFolder building(path + "/");
    EXPECT_TRUE(fs::is_empty(building.folder()));
    spill(building.folder() + "/a", "1");
    fs::create_directory(building.folder() + "/sub");
    spill(building.folder() + "/sub/b", "2");
    EXPECT_FALSE(folder.has("step_1"));
    building.commit();
  }
  EXPECT_EQ(slurp(path + "/sub/b"), "2");
  EXPECT_EQ(folder.count(), 1);
}

TEST(AtomicFolder, ReplacesOnlyOnRequest) {
  TemporaryFolder folder;
  const std::string path = folder / "model";
  fs::create_directory(path);
  spill(path + "/old", "1");
  {
    AtomicFolder building(path);
    spill(building.folder() + "/new", "2");
    EXPECT_THROW(building.commit(), UserError);
  }
  EXPECT_TRUE(folder.has("model/old"));
  EXPECT_EQ(folder.count(), 1);
  {
    AtomicFolder building(path);
    spill(building.folder() + "/new", "2");
    building.commit([](const std::string&) {});
  }
  EXPECT_FALSE(folder.has("model/old"));
  EXPECT_TRUE(folder.has("model/new"));
  EXPECT_EQ(folder.count(), 1);
  fs::remove(path + "/new");
  AtomicFolder(path).commit();  // over an empty one
  EXPECT_EQ(folder.count(), 1);
}

TEST(FolderLock, SecondRunGetsTheNameOfTheHolder) {
  TemporaryFolder folder;
  {
    FolderLock lock(folder.path());
    const std::string same = message_of<UserError>([&] { FolderLock second(folder.path()); });
    EXPECT_NE(same.find(fmt::format("process {} on ", ::getpid())), std::string::npos) << same;
    EXPECT_NE(same.find(folder.path()), std::string::npos) << same;
    EXPECT_EQ(in_child([&] {
                try {
                  FolderLock second(folder.path());
                } catch (const UserError&) {
                  return 7;
                }
                return 8;
              }),
              7);
    EXPECT_THROW(FolderLock(folder.path()), UserError);  // a refusal does not free the lock
  }
  EXPECT_EQ(folder.count(), 0);
  FolderLock again(folder.path());
}

TEST(FolderLock, OfADeadProcessIsTakenOver) {
  TemporaryFolder folder;
  EXPECT_EQ(in_child([&] {
              FolderLock lock(folder.path());
              ::kill(::getpid(), SIGKILL);
              return 0;
            }),
            1000 + SIGKILL);
  EXPECT_TRUE(folder.has(".lock"));
  FolderLock lock(folder.path());
  EXPECT_EQ(slurp(folder / ".lock").find("ravine lock: process " + std::to_string(::getpid()) + " "), 0u);
}

TEST(FolderLock, MissingFolderIsTheUsersMistake) {
  TemporaryFolder folder;
  EXPECT_THROW(FolderLock(folder / "missing"), UserError);
}

TEST(Checksum, StreamEqualsWholeAndKnownValues) {
  // XXH3_64bits of nothing, seed 0, from the reference implementation's test vectors.
  EXPECT_EQ(checksum_text(checksum_of({})), "2d06800538d394c2");
  std::string text(100'000, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 + i / 251);
  const auto bytes = std::as_bytes(std::span(text));
  Checksum sum;
  for (size_t at = 0; at < bytes.size(); at += 333) sum.update(bytes.subspan(at, std::min<size_t>(333, bytes.size() - at)));
  EXPECT_EQ(sum.value(), checksum_of(bytes));
  TemporaryFolder folder;
  spill(folder / "f", text);
  EXPECT_EQ(checksum_of_file(folder / "f"), checksum_of(bytes));
  text[50'000] ^= 1;
  EXPECT_NE(checksum_of(bytes), sum.value());
  uint64_t back = 0;
  EXPECT_TRUE(parse_checksum(checksum_text(sum.value()), &back));
  EXPECT_EQ(back, sum.value());
  for (const char* bad : {"", "2d06800538d394c", "2d06800538d394c2f", "2d06800538d394cg", "-d06800538d394c2"})
    EXPECT_FALSE(parse_checksum(bad, &back));
}

TEST(AtomicFile, AKillLeavesNothing) {
  for (const bool nameless : {true, false})
    for (int n = 1;; ++n) {
      TemporaryFolder folder;
      const TracedChild child = trace_child(n, [&] {
        if (!nameless && !refuse_nameless()) ::_exit(77);
        write_file_atomic(folder / "f", "x");
      });
      if (!child.possible || child.status == 77) GTEST_SKIP() << "no tracing here";
      if (!child.killed) {
        EXPECT_EQ(slurp(folder / "f"), "x");
        break;
      }
      EXPECT_TRUE(nameless || !child.calls.back().starts_with("link"));
      if (child.calls.back().starts_with("write ") && fs::path(child.calls.back()).filename().string().starts_with("#")) {
        EXPECT_EQ(folder.count(), 0) << child.calls.back();
      }
      write_file_atomic(folder / "f", "y");  // the next of this name removes what is left
      EXPECT_EQ(slurp(folder / "f"), "y");
      EXPECT_EQ(folder.count(), 1) << child.calls.back();
    }
}

TEST(FolderLock, AKillAtAnyMomentLeavesALockOfOursOrNone) {
  for (const bool nameless : {true, false})
    for (int n = 1;; ++n) {
      TemporaryFolder folder;
      const TracedChild child = trace_child(n, [&] {
        if (!nameless && !refuse_nameless()) ::_exit(77);
        FolderLock lock(folder.path());
      });
      if (!child.possible || child.status == 77) GTEST_SKIP() << "no tracing here";
      EXPECT_NO_THROW(FolderLock(folder.path())) << child.calls.back();
      EXPECT_FALSE(folder.has(".lock"));
      remove_leftovers(folder.path());
      EXPECT_EQ(folder.count(), 0) << child.calls.back();
      if (!child.killed) break;
    }
}

TEST(AtomicFile, LeftoversOfTheSameNameGoIfTheirWriterIsGone) {
  TemporaryFolder folder;
  std::string held, left, other;
  const Fd holds = create_temporary_file(folder / "f", &held);
  create_temporary_file(folder / "f", &left);
  create_temporary_file(folder / "g", &other);
  const std::string link = temporary_path(folder / "f", random_digits()), made = temporary_path(folder / "f", random_digits());
  spill(folder / "theirs", "dear");
  fs::create_symlink(folder / "theirs", link);
  fs::create_directory(made);
  write_file_atomic(folder / "f", "x");
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(held) && fs::exists(other) && fs::is_symlink(link) && fs::is_directory(made));
  EXPECT_EQ(slurp(folder / "theirs"), "dear");
}

}  // namespace test_files_atomic
