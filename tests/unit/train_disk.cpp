// What a run asks of its disk, counted by hand.
#include <gtest/gtest.h>

#include "files/disk_space.h"
#include "train/disk_needs.h"

namespace ravine {
namespace {

constexpr int64_t kCheckpoint = 100, kModel = 30;

// What is on the disk over time, save by save: the new one lies beside those kept until it is complete; then older ones go;
// last comes the model.
DiskNeeds played(int64_t saves, int64_t keep, int64_t there) {
  int64_t n = there, peak = 0;
  for (int64_t s = 0; s < saves; ++s) {
    peak = std::max(peak, (n + 1 - there) * kCheckpoint);
    ++n;
    if (keep > 0) n = std::min(n, keep);
  }
  return {0, std::max<int64_t>(0, std::max(peak, (n - there) * kCheckpoint + kModel))};
}

TEST(DiskNeeds, EqualARunThatIsPlayed) {
  for (int64_t saves = 0; saves < 7; ++saves)
    for (int64_t keep = 0; keep < 5; ++keep)
      for (int64_t there = 0; there < 6; ++there) {
        const DiskNeeds d = disk_needs(kCheckpoint, kModel, saves, keep, there);
        EXPECT_EQ(d.most, std::max(played(saves, keep, there).most, d.least))
            << saves << " saves, keep " << keep << ", " << there << " there";
        EXPECT_EQ(d.least, played(std::min<int64_t>(saves, 1), keep, there).most)
            << saves << " saves, keep " << keep << ", " << there << " there";
      }
}

TEST(DiskNeeds, ByHand) {
  EXPECT_EQ(disk_needs(100, 30, 5, 3, 0).most, 400);  // three, and one while it is written
  EXPECT_EQ(disk_needs(100, 30, 5, 3, 0).least, 130);
  EXPECT_EQ(disk_needs(100, 130, 5, 3, 0).most, 430);  // three and a model that is larger
  EXPECT_EQ(disk_needs(100, 30, 5, 3, 3).most, 100);   // a resume
  EXPECT_EQ(disk_needs(100, 30, 5, 0, 0).most, 530);   // all are kept
  EXPECT_EQ(disk_needs(100, 30, 0, 3, 0).most, 30);    // no checkpoints
}

TEST(FreeSpace, OfWhereAFolderWillBe) {
  const auto here = free_space("."), there = free_space("no/such/folder/yet");
  ASSERT_TRUE(here.has_value() && there.has_value());
  EXPECT_GT(*here, 0);
  EXPECT_FALSE(free_space("/proc/self/none").value_or(0) > 0);
}

}  // namespace
}  // namespace ravine
