// Mapped files that are cut, replaced, or gone.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "files/mapped_file.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_files_mapped {

constexpr size_t kSize = size_t{3} * 65536 + 100;  // whole pages, of any size, and a rest

std::string made(const std::string& path) {
  std::ofstream(path, std::ios::binary) << std::string(kSize, 'x');
  return path;
}

TEST(MappedFile, MovesAndForgets) {
  TemporaryFolder folder;
  std::vector<MappedFile> files;
  for (int i = 0; i < 20; ++i) files.emplace_back(made(folder / ("f" + std::to_string(i))));
  for (const MappedFile& f : files) EXPECT_EQ(f.bytes().size(), kSize);
  check_mapped_files();
  std::filesystem::resize_file(folder / "f7", 50);
  EXPECT_NE(message_of<Error>(check_mapped_files).find(folder / "f7"), std::string::npos);
  files.erase(files.begin() + 7);
  check_mapped_files();
  MappedFile again(made(folder / "again"));  // reuses the entry of the removed mapping
  std::filesystem::resize_file(folder / "again", 0);
  EXPECT_NE(message_of<Error>(check_mapped_files).find(folder / "again"), std::string::npos);
}

TEST(MappedFile, OneThatWasReplacedIsAsItWas) {
  TemporaryFolder folder;
  const MappedFile file(made(folder / "f"));
  std::ofstream(folder / "g") << "short";
  std::filesystem::rename(folder / "g", folder / "f");
  check_mapped_files();
  EXPECT_EQ(file.bytes()[kSize - 1], std::byte{'x'});
  std::filesystem::remove(folder / "f");
  check_mapped_files();
}

TEST(MappedFile, WritingFromACutOneNamesIt) {
  TemporaryFolder folder;
  const MappedFile file(made(folder / "source"));
  std::filesystem::resize_file(folder / "source", 100);
  Fd out = create_file(folder / "target");
  const std::string message = message_of<Error>([&] { write_all(*out, file.bytes().subspan(131072), folder / "target"); });
  EXPECT_NE(message.find("cut short"), std::string::npos) << message;
  EXPECT_NE(message.find(folder / "source"), std::string::npos) << message;
}

using MappedFileDeathTest = testing::Test;

TEST(MappedFileDeathTest, ReadingACutOneNamesItFromAnyThread) {
  TemporaryFolder folder;
  const std::string path = made(folder / "data");
  auto die = [&] {
    name_cut_files();
    const MappedFile other(made(folder / "other")), file(path);
    std::filesystem::resize_file(path, 100);
    volatile int sum = 0;
    std::thread([&] {
      for (std::byte b : file.bytes()) sum = sum + static_cast<int>(b);
    }).join();
  };
  EXPECT_EXIT(die(), testing::ExitedWithCode(1), "error: file was cut short while it was read \\(.*/data\\)");
}

TEST(MappedFileDeathTest, AnotherSigbusEndsAsBefore) {
  auto die = [] {
    name_cut_files();
    raise(SIGBUS);
    raise(SIGBUS);  // the first took the handler away, as before an instruction that is tried again
  };
  EXPECT_EXIT(die(), testing::KilledBySignal(SIGBUS), "^$");
}

}  // namespace test_files_mapped
}  // namespace ravine
