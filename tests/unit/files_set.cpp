// Sets of files that are replaced together, marks of outputs, looks at a lock.
#include "files/file_set.h"

#include <gtest/gtest.h>
#include <sys/file.h>

#include <chrono>
#include <thread>

#include "files/folder_lock.h"
#include "files/npy.h"
#include "files/output_mark.h"
#include "files/temporary.h"
#include "files_temporary.h"
#include "traced_child.h"

using namespace ravine;
namespace fs = std::filesystem;

namespace {

void write_set(const std::string& journal, bool overwrite) {
  finish_file_set(journal);
  FileSet set(journal);
  for (const char* name : {"a", "b"}) spill(set.folder() + "/" + name, "new");
  fs::create_directories(set.folder() + "/sub");
  spill(set.folder() + "/sub/c", "new");
  set.commit({"a", "b", "sub"}, overwrite, {"b", "old"});
}

// What a reader of the set sees: "old" or "new" as a whole, or that it is being replaced.
std::string seen(const TemporaryFolder& folder) {
  try {
    refuse_unfinished(folder / "set.replacing");
  } catch (const UserError&) {
    return "unfinished";
  }
  if (slurp(folder / "a") == "old" && slurp(folder / "b") == "old" && slurp(folder / "old") == "old" && !folder.has("sub")) return "old";
  if (slurp(folder / "a") == "new" && slurp(folder / "b") == "new" && slurp(folder / "sub/c") == "new" && !folder.has("old")) return "new";
  return "torn: " + slurp(folder / "a") + " " + slurp(folder / "b") + " " + slurp(folder / "old") + " " + slurp(folder / "sub/c");
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
    ASSERT_TRUE(found == "old" || found == "new" || found == "unfinished") << "call " << n << ", " << child.calls.back() << ": " << found;
    EXPECT_FALSE(has_both(folder)) << "call " << n << ", " << child.calls.back();
    if (finish_file_set(folder / "set.replacing")) EXPECT_EQ(found, "unfinished");
    EXPECT_EQ(seen(folder), found == "old" ? "old" : "new") << "call " << n;
    { FileSet clean(folder / "set.replacing"); }
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

TEST(FileSet, NothingIsOverwrittenUnasked) {
  TemporaryFolder folder;
  spill(folder / "b", "dear");
  EXPECT_NE(message_of<UserError>([&] { write_set(folder / "set.replacing", false); }).find(folder / "b"), std::string::npos);
  EXPECT_EQ(slurp(folder / "b"), "dear");
  EXPECT_EQ(folder.count(), 1);
  // It came between: the new set waits, and gets its names when there is room for them.
  fs::remove(folder / "b");
  fs::create_directories(folder / "set.replacing");
  spill(folder / "set.replacing/a", "new"), spill(folder / "set.replacing/b", "new");
  spill(folder / "set.replacing/.set.json", R"({"format":"ravine-file-set","version":1,"names":["a","b"],"gone":["mine"],"overwrite":false})");
  spill(folder / "b", "dear"), spill(folder / "mine", "dear");
  EXPECT_NE(message_of<UserError>([&] { finish_file_set(folder / "set.replacing"); }).find("move it away"), std::string::npos);
  EXPECT_EQ(slurp(folder / "b") + slurp(folder / "mine"), "deardear");
  fs::remove(folder / "b");
  EXPECT_TRUE(finish_file_set(folder / "set.replacing"));
  EXPECT_EQ(slurp(folder / "a") + slurp(folder / "b") + slurp(folder / "mine"), "newnewdear");
}

TEST(FileSet, AFolderOfThatNameThatIsNotOurs) {
  for (const std::string text : {"", "{}", R"({"format":"ravine-file-set","version":1,"names":["../x"],"gone":[],"overwrite":true})"}) {
    TemporaryFolder folder;
    fs::create_directories(folder / "set.replacing");
    spill(folder / "set.replacing/notes", "dear");
    spill(folder / "set.replacing/.set.json", text);
    EXPECT_NE(message_of<UserError>([&] { finish_file_set(folder / "set.replacing"); }).find("move it away"), std::string::npos);
    EXPECT_EQ(slurp(folder / "set.replacing/notes"), "dear");
  }
}

TEST(OutputMark, OurArraysAreKnownByTheirHeaders) {
  for (const Shape& shape : {Shape{0}, Shape{7}, Shape{1, 2, 3, 4, 5}, Shape{int64_t{1} << 60, 1, 1, 1, 1}}) {
    const std::string ours = npy_header("<f4", shape, true), plain = npy_header("<f4", shape);
    EXPECT_EQ(ours.size(), 192u);
    EXPECT_EQ(ours.find(kNpyMark.text), 0u);
    EXPECT_EQ(plain.find(kNpyMark.text), std::string::npos);
    EXPECT_LE(plain.size(), 128u);
  }
  const std::string file = npy_header("<i4", Shape{1}, true) + std::string("\x07\0\0\0", 4);
  EXPECT_EQ(parse_npy(std::as_bytes(std::span(file)), "here").shape, Shape{1});
}

TEST(FolderLock, ALookDoesNotStopAStart) {
  TemporaryFolder folder;
  spill(folder / ".lock", "");
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

}  // namespace
