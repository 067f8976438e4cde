#include "files/tensorboard.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "tests/unit/files_temporary.h"

using namespace ravine;

namespace test_files_tensorboard {

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

TEST(Events, ANewFileStandsBehindThoseThatAreThere) {
  TemporaryFolder f;
  const std::string later = f.path() + "/events.out.tfevents.4000000000.host.9.0";
  std::ofstream(later) << "";
  std::ofstream(f.path() + "/events.out.tfevents.notes") << "";
  for (const char* name : {"4000000001", "4000000002"}) {
    { EventWriter writer(f.path()); }
    bool there = false;
    for (const auto& entry : std::filesystem::directory_iterator(f.path()))
      there = there || entry.path().filename().string().starts_with(std::string("events.out.tfevents.") + name);
    EXPECT_TRUE(there) << name;
  }
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

// A little-endian number of type T behind `key` in a message: the first place where it stands.
template <class T>
T behind(const std::string& message, std::string_view key) {
  const size_t at = message.find(key);
  T value{};
  EXPECT_NE(at, std::string::npos);
  if (at != std::string::npos) std::memcpy(&value, message.data() + at + key.size(), sizeof value);
  return value;
}

// Two runs write to one folder; the second resumes at step 6 of 10. tools/golden/check_tensorboard.py sets the folder,
// then opens it with TensorBoard.
TEST(Events, Sample) {
  TemporaryFolder temporary;
  const char* kept = std::getenv("RAVINE_SAMPLE_FOLDER");
  const std::string folder = kept ? kept : temporary.path();
  {
    EventWriter writer(folder);
    for (int i = 1; i <= 10; ++i) writer.scalar("train/loss", i, 100 + i, 1000.0 + i);
    writer.text("config", 0, "*model*: caf\xc3\xa9\n\n    lr: 3e-4\n", 1000.0);
  }
  std::string path;
  {
    EventWriter writer(folder, 6);
    path = writer.path();
    for (int i = 6; i <= 12; ++i) writer.scalar("train/loss", i, 1.0 / i, 2000.0 + i);
    writer.scalar("big step", int64_t{1} << 40, -1e30, 3000.5);
    writer.scalar("nan", 1, std::numeric_limits<double>::quiet_NaN(), 3000.5);
  }
  std::vector<std::string> first;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (!kept && entry.path() != path) first = frames_of(slurp(entry.path().string()));
  if (!kept) {
    ASSERT_EQ(first.size(), 12u);
    for (int i = 1; i <= 10; ++i) {
      EXPECT_EQ(behind<double>(first[static_cast<size_t>(i)], "\x09"), 1000.0 + i);
      EXPECT_EQ(behind<float>(first[static_cast<size_t>(i)], "\x0a\x0atrain/loss\x15"), 100.0f + static_cast<float>(i));
    }
    for (const char* part : {"config", "text", "*model*: caf\xc3\xa9\n\n    lr: 3e-4\n"})
      EXPECT_NE(first[11].find(part), std::string::npos) << part;
  }
  const auto frames = frames_of(slurp(path));
  ASSERT_EQ(frames.size(), 11u);
  EXPECT_EQ(frames[1].substr(9),
            std::string("\x10\x06\x3a\x02\x08\x01", 6));  // step 6, SessionLog START: TensorBoard drops later events
  for (int i = 6; i <= 12; ++i) {
    const std::string& f = frames[static_cast<size_t>(i - 4)];
    EXPECT_EQ(f.substr(9, 2), std::string({'\x10', static_cast<char>(i)}));
    EXPECT_EQ(behind<float>(f, "\x0a\x0atrain/loss\x15"), static_cast<float>(1.0 / i));
  }
  EXPECT_EQ(frames[9].substr(9, 7), std::string("\x10\x80\x80\x80\x80\x80\x20", 7));  // 2^40 in steps of seven bits
  EXPECT_EQ(behind<float>(frames[9], "big step\x15"), -1e30f);
  EXPECT_TRUE(std::isnan(behind<float>(frames[10], "nan\x15")));
}

}  // namespace test_files_tensorboard
