// Names, marks, links: what is ours and what is not.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/log.h"
#include "files/atomic.h"
#include "files/checksum.h"
#include "files/folder_lock.h"
#include "files/folder_mark.h"
#include "files/same_path.h"
#include "files/temporary.h"
#include "files/tokenizer_files.h"
#include "tests/unit/files_temporary.h"

using namespace ravine;
namespace fs = std::filesystem;

namespace test_files_ours {

TEST(Temporary, NamesAreOursByTheirCheckDigitsAlone) {
  const std::string digits = random_digits();
  EXPECT_NE(digits, random_digits());
  const std::string path = temporary_path("/some/where/model", digits), name = fs::path(path).filename();
  EXPECT_TRUE(path.starts_with("/some/where/model.ravine-" + digits));
  ASSERT_TRUE(parse_temporary(name));
  EXPECT_EQ(parse_temporary(name)->target, "model");
  EXPECT_FALSE(parse_temporary(name)->replaced);
  EXPECT_TRUE(parse_temporary(fs::path(temporary_path("model", digits, true)).filename())->replaced);
  for (size_t i = 0; i < name.size(); ++i) {  // any other name is somebody else's
    std::string other = name;
    other[i] = other[i] == 'f' ? 'e' : 'f';
    EXPECT_FALSE(parse_temporary(other)) << other;
  }
  for (const char* foreign :
       {"", "model.tmp", "model.old", ".tmp", "model.tmp-17", "model.ravine-.tmp", "step_000020.parts.tmp"})
    EXPECT_FALSE(parse_temporary(foreign)) << foreign;
}

TEST(Temporary, LongNamesHaveOneToo) {
  TemporaryFolder folder;
  std::string name;
  while (name.size() < 240) name += "数据";
  write_file_atomic(folder / name, "x");
  EXPECT_EQ(slurp(folder / name), "x");
  EXPECT_EQ(folder.count(), 1);
}

TEST(Temporary, AFileOfAnyNameNextToTheTargetStays) {
  TemporaryFolder folder;
  for (const std::string& name : {fmt::format("f.tmp-{}", ::getpid()), std::string("f.tmp")}) {
    spill(folder / "theirs", "dear");
    fs::create_symlink(folder / "theirs", folder / name);
  }
  fs::create_directory(folder / "m.tmp");
  spill(folder / "m.tmp/dear", "dear");
  write_file_atomic(folder / "f", "x");
  AtomicFolder(folder / "m").commit();
  EXPECT_EQ(slurp(folder / "theirs"), "dear");
  EXPECT_EQ(slurp(folder / "m.tmp/dear"), "dear");
  EXPECT_TRUE(fs::is_symlink(folder / "f.tmp"));
}

TEST(Temporary, NothingIsWrittenThroughALink) {
  TemporaryFolder folder;
  spill(folder / "theirs", "dear");
  fs::create_symlink(folder / "theirs", folder / "f");
  EXPECT_THROW(create_file(folder / "f"), UserError);
  write_file_atomic(folder / "f", "x");  // takes the place of the link
  EXPECT_EQ(slurp(folder / "theirs"), "dear");
  EXPECT_FALSE(fs::is_symlink(folder / "f"));
  fs::create_symlink(folder / "theirs", folder / "log.txt");
  Log log;
  EXPECT_NE(message_of<UserError>([&] { log.open(folder / "log.txt"); }).find(folder / "log.txt"), std::string::npos);
  fs::remove(folder / "log.txt");
  fs::create_hard_link(folder / "theirs", folder / "log.txt");
  EXPECT_THROW(log.open(folder / "log.txt"), UserError);
  EXPECT_EQ(slurp(folder / "theirs"), "dear");
}

TEST(Temporary, ALockIsNoLinkAndNoFileOfOthers) {
  TemporaryFolder folder;
  const std::string lock = folder / ".lock";
  auto refused = [&](const std::string& what) {
    EXPECT_NE(message_of<UserError>([&] { FolderLock take(folder.path()); }).find(lock), std::string::npos) << what;
    EXPECT_TRUE(fs::exists(fs::symlink_status(lock))) << what;
  };
  spill(folder / "theirs", "17 host\n");
  fs::create_symlink(folder / "theirs", lock);
  refused("a link");
  fs::remove(lock);
  fs::create_hard_link(folder / "theirs", lock);
  refused("a second name");
  EXPECT_EQ(slurp(folder / "theirs"), "17 host\n");
  fs::remove(lock);
  for (const std::string& text : {std::string("keep this\n"), std::string("12 monkeys\nand more\n"), std::string(1000, '7'),
                                  std::string("my\0notes\n", 9),
                                  std::string("\xff\xfe"
                                              "dear"),
                                  std::string("a\x7f"), std::string("1234\n"), std::string(9, '\0'), std::string(),
                                  std::string("ravine lock: process 17 host\nand my notes\n")}) {
    spill(lock, text);
    refused(text);
    EXPECT_EQ(slurp(lock), text);
  }
  fs::remove(lock);
  EXPECT_NO_THROW(FolderLock(folder.path()));
  EXPECT_EQ(folder.count(), 1);                   // theirs
  spill(lock, "ravine lock: process 17 host\n");  // of a process that is gone
  EXPECT_NO_THROW(FolderLock(folder.path()));
  // The lock of a power failure or of an earlier version is accepted in a marked folder only.
  write_mark(folder.path(), {.run = new_run_id(), .files = {}});
  for (const std::string& text : {std::string(), std::string("17"), std::string("17 hos"), std::string(9, '\0')}) {
    spill(lock, text);
    EXPECT_NO_THROW(FolderLock(folder.path())) << text;
  }
  spill(lock, "my notes");
  refused("notes in a folder of ours");
}

TEST(FolderMark, NamesWhatIsNotOurs) {
  TemporaryFolder folder;
  fs::create_directory(folder / "sub");
  spill(folder / "config.json", "{}");
  spill(folder / "sub/weights", std::string(2'000'000, 'w'));
  EXPECT_FALSE(read_mark(folder.path()));
  write_mark(folder.path(), mark_of(folder.path(), "run 1", kModelFolder));
  auto mark = read_mark(folder.path());
  ASSERT_TRUE(mark);
  EXPECT_EQ(mark->run, "run 1");
  EXPECT_EQ(mark->kind, kModelFolder);
  EXPECT_EQ(mark->files.size(), 2u);
  EXPECT_EQ(foreign_in_folder(folder.path(), *mark), "");
  auto with = [&](const std::string& path, const std::string& text) {
    const bool had = fs::exists(folder / path);
    const std::string before = had ? slurp(folder / path) : "";
    spill(folder / path, text);
    EXPECT_EQ(foreign_in_folder(folder.path(), *mark), path);
    if (had)
      spill(folder / path, before);
    else
      fs::remove(folder / path);
    EXPECT_EQ(foreign_in_folder(folder.path(), *mark), "");
  };
  with("notes.txt", "dear");
  with("sub/notes.txt", "dear");
  with("config.json", "[]");  // edited
  with("sub/weights", "others'");
  EXPECT_EQ(missing_in_folder(folder.path(), *mark) + changed_in_folder(folder.path(), *mark), "");
  spill(folder / "sub/weights", std::string(1'999'999, 'w') + "x");
  EXPECT_EQ(foreign_in_folder(folder.path(), *mark), "sub/weights") << "other bytes, whatever the size";
  EXPECT_EQ(foreign_in_folder(folder.path(), *mark, true), "") << "at a glance, of large files only the size is looked at";
  EXPECT_EQ(changed_in_folder(folder.path(), *mark), "sub/weights");
  fs::remove(folder / "sub/weights");
  EXPECT_EQ(missing_in_folder(folder.path(), *mark), "sub/weights");
  EXPECT_EQ(changed_in_folder(folder.path(), *mark), "");
  spill(folder / "sub/weights", std::string(2'000'000, 'w'));
  fs::create_directory(folder / "empty");
  EXPECT_EQ(foreign_in_folder(folder.path(), *mark), "empty");
  fs::remove(folder / "empty");
  fs::create_symlink("config.json", folder / "link");
  EXPECT_EQ(foreign_in_folder(folder.path(), *mark), "link");
  for (const char* text : {"", "{", "[]", "{\"format\":\"ravine-folder\",\"version\":2,\"run\":\"a\",\"files\":{}}",
                           "{\"format\":\"ravine-folder\",\"version\":1,\"run\":7,\"files\":{}}"}) {
    spill(folder / kFolderMark, text);
    EXPECT_FALSE(read_mark(folder.path())) << text;
  }
}

// A checksum that is not the file's shows whether it was read.
TEST(FolderMark, WhatWasNotTouchedIsNotReadAgain) {
  TemporaryFolder folder;
  spill(folder / "weights", std::string(2'000'000, 'w'));
  spill(folder / "config.json", "{}");
  write_mark(folder.path(), mark_of(folder.path(), "run 1", kModelFolder));
  FolderMark mark = *read_mark(folder.path());
  for (const auto& [path, file] : mark.files)
    EXPECT_EQ(file.inode, 0) << path << " was only just written: a later change may have the same time";
  // As if two seconds had gone by.
  auto settle = [&](const char* name, const char* checksum) {
    struct stat s {};
    ASSERT_EQ(::stat((folder / name).c_str(), &s), 0);
    mark.files[name] = {s.st_size, checksum, static_cast<int64_t>(s.st_ino),
                        int64_t{s.st_ctim.tv_sec} * 1'000'000'000 + s.st_ctim.tv_nsec};
  };
  settle("weights", "0000000000000000");
  write_mark(folder.path(), mark);
  mark = *read_mark(folder.path());
  EXPECT_EQ(foreign_in_folder(folder.path(), mark), "");
  EXPECT_EQ(changed_in_folder(folder.path(), mark), "weights") << "this one reads every byte";
  // Touched and back, with its old time of modification: read, and found out.
  const auto modified = fs::last_write_time(folder / "weights");
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  spill(folder / "weights", std::string(2'000'000, 'v'));
  fs::last_write_time(folder / "weights", modified);
  EXPECT_EQ(foreign_in_folder(folder.path(), mark), "weights");
  settle("weights", "0000000000000000");
  EXPECT_EQ(foreign_in_folder(folder.path(), mark), "");
  fs::copy_file(folder / "weights", folder / "copy");
  fs::rename(folder / "copy", folder / "weights");
  EXPECT_EQ(foreign_in_folder(folder.path(), mark), "weights") << "another file of the same size";
}

// Marks of earlier versions: no inode, and above 1 MiB no checksum.
TEST(FolderMark, OldMarksAreRead) {
  TemporaryFolder folder;
  spill(folder / "config.json", "{}");
  spill(folder / "weights", "0123456789");
  spill(folder / kFolderMark,
        R"({"format":"ravine-folder","version":1,"run":"a","files":{"config.json":{"bytes":2,"checksum":")" +
            checksum_text(checksum_of_file(folder / "config.json")) + R"("},"weights":{"bytes":10,"checksum":""}}})");
  auto mark = read_mark(folder.path());
  ASSERT_TRUE(mark);
  EXPECT_EQ(foreign_in_folder(folder.path(), *mark), "");
  EXPECT_EQ(mark->files["weights"].inode, 0) << "what was not compared is not noted";
  spill(folder / "config.json", "[]");
  EXPECT_EQ(foreign_in_folder(folder.path(), *mark), "config.json");
}

TEST(Leftovers, WhatIsNotOursInAReplacedFolderStays) {
  TemporaryFolder folder;
  auto replaced = [&](bool old) {
    const std::string path = temporary_path(folder / "model", random_digits(), old);
    fs::create_directories(path);
    spill(path + "/config.json", "{}");
    write_mark(path, mark_of(path, "run 1", kModelFolder));
    return path;
  };
  fs::create_directory(folder / "model");
  for (const bool old : {false, true}) {
    const std::string plain = replaced(old), theirs = replaced(old), edited = replaced(old);
    spill(theirs + "/eval_results.json", "dear");
    spill(edited + "/config.json", "[]");
    remove_leftovers(folder.path(), {}, foreign_in_model);
    EXPECT_FALSE(fs::exists(plain));
    EXPECT_EQ(slurp(theirs + "/eval_results.json"), "dear");
    EXPECT_EQ(slurp(edited + "/config.json"), "[]");
    fs::remove(theirs + "/eval_results.json");
    spill(edited + "/config.json", "{}");
    remove_leftovers(folder.path(), {}, foreign_in_model);
    EXPECT_EQ(folder.count(), 1) << "with it moved away they go";
  }
  // Names that are not the caller's.
  const std::string conversion = temporary_path(folder / "big", random_digits()),
                    file = temporary_path(folder / "model", random_digits());
  fs::create_directory(conversion);
  spill(file, "");
  remove_leftovers(
      folder.path(), [](const std::string& target) { return target == "model"; }, foreign_in_model);
  EXPECT_TRUE(fs::exists(conversion) && !fs::exists(file));
}

// Without renames that replace nothing a lock gets its name by link: killed before the other name goes, it has two.
TEST(FolderLock, ALockWithTheTemporaryNameOfItsKilledMakerIsTaken) {
  TemporaryFolder folder;
  { FolderLock lock(folder.path()); }
  spill(folder / ".lock", "ravine lock: process 17 host\n");
  const std::string other = temporary_path(folder / ".lock", random_digits());
  fs::create_hard_link(folder / ".lock", other);
  {
    FolderLock lock(folder.path());
    EXPECT_FALSE(fs::exists(other));
  }
  EXPECT_EQ(folder.count(), 0);
  spill(folder / ".lock", "ravine lock: process 17 host\n");
  fs::create_hard_link(folder / ".lock", folder / "theirs");
  EXPECT_NE(message_of<UserError>([&] { FolderLock lock(folder.path()); }).find("the name of the lock"), std::string::npos);
}

TEST(TokenizerFiles, AFolderHoldsOneOrNot) {
  for (const auto& [files, holds] : {std::pair{std::vector<const char*>{}, false},
                                     {{"tokenizer.model"}, true},
                                     {{"tokenizer.model.xz"}, true},
                                     {{"tokenizer.json"}, true},
                                     {{"vocab.json"}, false},
                                     {{"merges.txt"}, false},
                                     {{"vocab.json", "merges.txt.xz"}, true},
                                     {{"vocab.txt"}, true},
                                     {{"tokenizer_config.json", "chat_template.jinja"}, false}}) {
    TemporaryFolder folder;
    for (const char* name : files) spill(folder / name, "");
    EXPECT_EQ(has_tokenizer(folder.path()), holds) << (files.empty() ? "nothing" : files[0]);
  }
}

TEST(SamePath, HoweverItIsSpelled) {
  TemporaryFolder folder;
  fs::create_directories(folder / "a/b");
  fs::create_symlink(folder / "a", folder / "link");
  fs::create_symlink("a/b", folder / "inner");
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  EXPECT_TRUE(same_path(folder / "a/", "a"));
  EXPECT_TRUE(same_path("link/b/../b/.", "inner"));
  EXPECT_TRUE(same_path("link/new/file", "a/./new//file"));
  EXPECT_FALSE(same_path("a", "a/b"));
  EXPECT_TRUE(lies_within("inner/x/y", "a") && lies_within("link", "a") && lies_within("a/b", "."));
  EXPECT_FALSE(lies_within("ab", "a") || lies_within("a", "a/b") || lies_within("link/../ab", "a"));
  fs::current_path(before);
}

TEST(AtomicFolder, WhatIsForeignInTheReplacedOneIsFoundAtTheEndToo) {
  TemporaryFolder folder;
  fs::create_directory(folder / "m");
  spill(folder / "m/old", "1");
  int calls = 0;
  {
    AtomicFolder building(folder / "m");
    spill(building.folder() + "/new", "2");
    EXPECT_THROW(building.commit([&](const std::string&) {
      if (++calls == 2) throw UserError("foreign", "m", "came late", "move it");
    }),
                 UserError);
  }
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(slurp(folder / "m/old"), "1");
  EXPECT_EQ(folder.count(), 1);
}

}  // namespace test_files_ours
