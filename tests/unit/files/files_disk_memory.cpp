// Memory that lies in a file.
#include "files/disk_memory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "files/disk_space.h"
#include "files/mapped_file.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_files_disk_memory {

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(DiskMemory, BytesStayWhereTheyAreWhileTheirPagesGo) {
  TemporaryFolder folder;
  Storage first(DeviceKind::cpu, 64 * kMiB), odd(DeviceKind::cpu, 5001), none(DeviceKind::cpu, 0),
      untaken(DeviceKind::cpu, 4096);
  const std::byte* const at = first.data();
  DiskMemory plan;
  for (int64_t bytes : {first.bytes(), odd.bytes(), none.bytes()}) plan.take(Storage(DeviceKind::meta, bytes));
  DiskMemory disk(folder / "made/here", plan.bytes());
  for (const Storage* s : {&first, &odd, &none}) disk.take(*s);
  EXPECT_EQ(disk.bytes(), plan.bytes()) << "what is planned is what is taken";
  EXPECT_TRUE(std::filesystem::is_empty(folder / "made/here")) << "the file has no name";
  EXPECT_EQ(first.data(), at);
  EXPECT_EQ(first.data()[5], std::byte{0});
  std::memset(first.data(), 7, static_cast<size_t>(first.bytes()));
  std::memset(odd.data(), 9, static_cast<size_t>(odd.bytes()));
  untaken.data()[0] = std::byte{3};
  const int64_t full = resident_memory();
  disk.drop(first), disk.drop(odd), disk.drop(untaken);
  EXPECT_LT(resident_memory(), full - 60 * kMiB);
  EXPECT_EQ(untaken.data()[0], std::byte{3}) << "memory that was not taken is left alone";
  disk.fetch(first), disk.fetch(odd), disk.fetch(untaken);
  for (int64_t i = 0; i < first.bytes(); i += 1001) ASSERT_EQ(first.data()[i], std::byte{7}) << i;
  for (int64_t i = 0; i < odd.bytes(); ++i) ASSERT_EQ(odd.data()[i], std::byte{9}) << i;
  first.data()[0] = std::byte{8};  // changed again, and given up again
  disk.drop(first);
  EXPECT_EQ(first.data()[0], std::byte{8});
  EXPECT_EQ(first.data()[1], std::byte{7});
  EXPECT_THROW(disk.take(untaken), Error) << "more than was planned";
}

TEST(DiskMemory, TooLittleRoomIsReportedAtOnceAndFillsNoDisk) {
  TemporaryFolder folder;
  const int64_t room = free_space(folder / "x").value(), requested = room + (int64_t{1} << 40);
  try {
    DiskMemory disk(folder / "x", requested);
    FAIL() << "a disk gave more than it has";
  } catch (const DiskFull& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find(folder / "x"), std::string::npos) << text;
    EXPECT_NE(text.find(std::to_string(requested) + " bytes"), std::string::npos) << text;
    EXPECT_NE(text.find("offload.path"), std::string::npos) << text;
  }
  EXPECT_GT(free_space(folder / "x").value(), room / 2);
}

TEST(DiskMemory, TheFileHasItsBytesBeforeAnythingIsWritten) {
  TemporaryFolder folder;
  const int64_t before = free_space(folder / "x").value();
  {
    DiskMemory disk(folder / "x", 256 * kMiB);
    EXPECT_LT(free_space(folder / "x").value(), before - 128 * kMiB);
  }
  EXPECT_GT(free_space(folder / "x").value(), before - 128 * kMiB) << "it goes with its owner";
}

TEST(DiskMemory, AFailingDiskIsNamed) {
  TemporaryFolder folder;
  auto die = [&] {
    name_cut_files();
    Storage memory(DeviceKind::cpu, kMiB);
    DiskMemory disk(folder / "x", kMiB);
    disk.take(memory);
    for (const auto& e : std::filesystem::directory_iterator("/proc/self/fd")) {  // as a read that fails: no bytes come
      std::error_code ignored;
      const std::string to = std::filesystem::read_symlink(e.path(), ignored);
      if (to.starts_with(folder / "x")) (void)!::ftruncate(std::stoi(e.path().filename()), 0);
    }
    memory.data()[5] = std::byte{1};
    ::_exit(0);
  };
  EXPECT_EXIT(die(), testing::ExitedWithCode(1), "error: offload in '.*/x': the disk failed to read or write");
}

TEST(DiskMemory, NeighboursAreInMemoryAtOnce) {
  EXPECT_EQ(DiskMemory::most_at_once({}), 0);
  EXPECT_EQ(DiskMemory::most_at_once({5}), 5);
  EXPECT_EQ(DiskMemory::most_at_once({9, 1, 2, 3, 4}), 12);
  EXPECT_EQ(DiskMemory::most_at_once({1, 2, 30, 4, 9}), 43);
}

}  // namespace test_files_disk_memory
}  // namespace ravine
