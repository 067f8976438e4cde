// The memory limits of a process, from cgroups of both versions.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "device/device.h"
#include "device/limits.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_device_limits {
namespace fs = std::filesystem;

void put(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path) << text;
}

constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

TEST(CgroupRoom, TightestOfAllGroupsAbove) {
  TemporaryFolder folder;
  std::string root = folder / "cgroup", self = folder / "self";
  put(self, "0::/user/job\n");
  EXPECT_EQ(cgroup_room(root, self), kNone) << "no files, no limit";
  put(root + "/user/job/memory.max", "max\n");
  put(root + "/user/job/memory.current", "7000\n");
  EXPECT_EQ(cgroup_room(root, self), kNone);
  put(root + "/user/memory.max", "10000\n");
  put(root + "/user/memory.current", "8000\n");
  put(root + "/user/memory.stat", "anon 100\ninactive_file_other 1\ninactive_file 500\n");
  EXPECT_EQ(cgroup_room(root, self), 2500) << "the group above limits; cache that can be dropped is free";
  put(root + "/user/job/memory.max", "7100\n");
  EXPECT_EQ(cgroup_room(root, self), 100);
  put(root + "/user/job/memory.max", "6000\n");
  EXPECT_EQ(cgroup_room(root, self), 0) << "over the limit already";
}

TEST(CgroupRoom, FirstVersionAndContainers) {
  TemporaryFolder folder;
  std::string root = folder / "cgroup", self = folder / "self";
  put(self, "12:cpu,cpuacct:/a\n5:memory:/docker/1234\n");
  put(root + "/memory/memory.limit_in_bytes", "4096\n");  // the group's own folder is not visible from inside
  put(root + "/memory/memory.usage_in_bytes", "96\n");
  EXPECT_EQ(cgroup_room(root, self), 4000);
  put(root + "/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(cgroup_room(root, self), kNone) << "its way to write: none";
}

TEST(AvailableMemory, IsWhatTheMachineHas) {
  EXPECT_GT(available_memory(), 0);
  EXPECT_GT(resident_memory(), 0);
  EXPECT_GE(peak_resident_memory(), resident_memory() / 2);
  EXPECT_GT(process_room(), 0);
}

}  // namespace test_device_limits
}  // namespace ravine
