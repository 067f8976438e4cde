#include "files/tensorboard.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "files_temporary.h"

using namespace ravine;

namespace {

// The payloads of a file of TFRecord frames; both checksums of each are checked.
std::vector<std::string> frames_of(const std::string& file) {
  auto masked = [](std::string_view b) { return std::rotr(crc32c(b), 15) + 0xa282ead8u; };
  auto u32 = [&](size_t at) {
    uint32_t v;
    std::memcpy(&v, file.data() + at, 4);
    return v;
  };
  std::vector<std::string> frames;
  for (size_t at = 0; at < file.size();) {
    uint64_t n;
    EXPECT_GE(file.size() - at, 16u);
    std::memcpy(&n, file.data() + at, 8);
    EXPECT_GE(file.size() - at, n + 16);
    EXPECT_EQ(u32(at + 8), masked(std::string_view(file).substr(at, 8)));
    frames.push_back(file.substr(at + 12, n));
    EXPECT_EQ(u32(at + 12 + n), masked(frames.back()));
    at += n + 16;
  }
  return frames;
}

TEST(Crc32c, KnownValues) {  // RFC 3720, B.4
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
}

TEST(Events, AreFramedEvents) {
  TemporaryFolder folder;
  EventWriter writer(folder.path());
  EXPECT_EQ(std::filesystem::path(writer.path()).filename().string().find("events.out.tfevents."), 0u);
  writer.scalar("loss", 1, 0.5, 2.0);
  writer.flush();
  const auto frames = frames_of(slurp(writer.path()));
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].substr(9),
            "\x1a\x0d"
            "brain.Event:2");
  const std::string expected(
      "\x09\0\0\0\0\0\0\0\x40"
      "\x10\x01"
      "\x2a\x0d"
      "\x0a\x0b"
      "\x0a\x04loss"
      "\x15\0\0\0\x3f",
      26);
  EXPECT_EQ(frames[1], expected);
}

TEST(Events, AreThereAfterFlushAndAfterTheEnd) {
  TemporaryFolder folder;
  std::string path;
  {
    EventWriter writer(folder.path()), second(folder.path());
    path = writer.path();
    EXPECT_NE(path, second.path());
    EXPECT_EQ(frames_of(slurp(path)).size(), 1u);
    for (int i = 1; i <= 5000; ++i) writer.scalar("a", i, i);
    EXPECT_GT(frames_of(slurp(path)).size(), 3000u);  // gathered, but not for ever
    writer.flush();
    EXPECT_EQ(frames_of(slurp(path)).size(), 5001u);
    writer.text("t", 1, std::string(300, 'x'));
  }
  EXPECT_EQ(frames_of(slurp(path)).size(), 5002u);
  EXPECT_THROW(EventWriter(folder / "missing"), UserError);
}

// Two runs of one folder, the second resumed at step 6 of 10. tools/golden/check_tensorboard.py sets the folder, then opens
// what is left there with TensorBoard.
TEST(Events, Sample) {
  TemporaryFolder temporary;
  const char* kept = std::getenv("RAVINE_SAMPLE_FOLDER");
  const std::string folder = kept ? kept : temporary.path();
  {
    EventWriter writer(folder);
    for (int i = 1; i <= 10; ++i) writer.scalar("train/loss", i, 100 + i, 1000.0 + i);
    writer.text("config", 0, "*model*: caf\xc3\xa9\n\n    lr: 3e-4\n", 1000.0);
  }
  EventWriter writer(folder, 6);
  for (int i = 6; i <= 12; ++i) writer.scalar("train/loss", i, 1.0 / i, 2000.0 + i);
  writer.scalar("big step", int64_t{1} << 40, -1e30, 3000.5);
  writer.scalar("nan", 1, std::numeric_limits<double>::quiet_NaN(), 3000.5);
}

}  // namespace
