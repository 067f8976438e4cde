// The reader of TensorBoard's events: restarts, files of one run in order, formats of values. Also writes of any size
// that bypass the page cache.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "base/parallel.h"
#include "files/safetensors.h"
#include "files/straight_writer.h"
#include "files/tensorboard.h"
#include "files/tensorboard_reader.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_files_events {

using Points = std::vector<std::pair<int64_t, double>>;

// A record of a file of events: both checksums are right.
std::string record(const std::string& payload) {
  auto masked = [](std::string_view b) {
    const uint32_t c = crc32c(b);
    return (c >> 15 | c << 17) + 0xa282ead8u;
  };
  auto bytes = [](uint64_t v, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += static_cast<char>(v >> (8 * i));
    return out;
  };
  const std::string length = bytes(payload.size(), 8);
  return length + bytes(masked(length), 4) + payload + bytes(masked(payload), 4);
}
std::string message(char key, const std::string& inside) { return std::string{key, static_cast<char>(inside.size())} + inside; }

TEST(EventsRead, ARestartTakesBackWhatCameBeforeIt) {
  TemporaryFolder f;
  std::vector<std::string> files;
  auto write = [&](int64_t from, int64_t to, double scale) {
    EventWriter w(f.path(), from > 1 ? from : 0);
    for (int64_t i = from; i <= to; ++i)
      w.scalar("loss", i, scale * static_cast<double>(i)), w.scalar("rare", i == from ? i : 1000 + i, 1);
    files.push_back(w.path());
  };
  write(1, 10, 1);
  write(6, 8, 2);
  write(3, 4, 4);
  write(5, 5, 8);
  const EventData data = read_events(files);
  EXPECT_EQ(data.scalars.at("loss"), (Points{{1, 1}, {2, 2}, {3, 12}, {4, 16}, {5, 40}}))
      << "a later restart reaches back over an earlier one";
  EXPECT_EQ(data.scalars.at("rare"), (Points{{1, 1}, {3, 1}, {5, 1}}));
  EXPECT_EQ(data.events, 4 + 3 + 2 * (10 + 3 + 2 + 1)) << "versions, marks and values";
  EXPECT_FALSE(data.cut);
  EXPECT_EQ(read_events({files[0]}).scalars.at("loss").size(), 10u);
}

TEST(EventsRead, KnowsEachFormOfAValue) {
  TemporaryFolder f;
  const std::string half("\0\0\0\x3f", 4), tag("\x0a\x01x", 3);
  // Event: step 7, summary. Value: tag, then simple_value, or a tensor: DT_FLOAT with tensor_content or float_val, or
  // another type.
  auto event = [&](const std::string& value) {
    return record(std::string("\x10\x07", 2) + message('\x2a', message('\x0a', tag + value)));
  };
  const std::string values[] = {"\x15" + half, message('\x42', "\x08\x01" + message('\x22', half)),
                                message('\x42', "\x08\x01" + message('\x2a', half)),
                                message('\x42', "\x08\x07" + message('\x22', half)), ""};
  std::string all;
  for (const std::string& v : values) all += event(v);
  spill(f / "events.out.tfevents.1", all);
  const EventData data = read_events({f / "events.out.tfevents.1"});
  EXPECT_EQ(data.scalars.at("x"), (Points{{7, 0.5}, {7, 0.5}, {7, 0.5}}));
  EXPECT_EQ(data.others.at("x"), 2) << "a tensor of another type, and nothing";
  EXPECT_EQ(data.events, 5);
  for (size_t cut = 1; cut < event(values[0]).size(); ++cut) {
    spill(f / "events.out.tfevents.1", all + event(values[0]).substr(0, cut));
    EXPECT_TRUE(read_events({f / "events.out.tfevents.1"}).cut) << cut;
  }
  for (size_t at : {size_t{0}, size_t{9}, size_t{13}, all.size() - 1}) {
    std::string bad = all;
    bad[at] ^= 1;
    spill(f / "events.out.tfevents.1", bad);
    EXPECT_NE(message_of<UserError>([&] { read_events({f / "events.out.tfevents.1"}); }).find("damaged event file"),
              std::string::npos)
        << at;
  }
}

TEST(EventsRead, FilesOfAFolderInOrder) {
  TemporaryFolder f;
  for (const char* name :
       {"events.out.tfevents.2", "events.out.tfevents.10", "events.out.tfevents.1", "other", "x.events.out.tfevents.3"})
    spill(f / name, "");
  std::filesystem::create_directory(f / "events.out.tfevents.0");
  EXPECT_EQ(event_files(f.path()),
            (std::vector<std::string>{f / "events.out.tfevents.1", f / "events.out.tfevents.10", f / "events.out.tfevents.2"}));
  EXPECT_TRUE(is_event_file("a/events.out.tfevents.5") && !is_event_file("events.out.tfevents.5/a"));
}

// Buffers of 4 MiB: a byte more or less than one, than two, than the whole ring.
TEST(StraightWriter, TakesBytesInAnyPieces) {
  constexpr size_t kRing = size_t{4} << 20;
  std::string bytes(9 * kRing + 12345, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 2654435761u >> 16);
  const int threads = thread_count();
  for (int t : {1, 3}) {
    set_thread_count(t);
    for (size_t size : {size_t{0}, size_t{1}, kRing - 1, kRing, kRing + 1, 2 * kRing, 9 * kRing + 12345})
      for (size_t piece : {size_t{1234567}, 2 * kRing + 3}) {
        if (t == 3 && piece == 1234567) continue;
        TemporaryFolder f;
        Fd fd(::open((f / "a").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
        {
          StraightWriter w(*fd, f / "a");
          for (size_t at = 0; at < size; at += piece)
            w.write(std::as_bytes(std::span(bytes)).subspan(at, std::min(piece, size - at)));
          w.finish();
        }
        EXPECT_TRUE(slurp(f / "a") == bytes.substr(0, size)) << size << " bytes by " << piece;
      }
  }
  set_thread_count(threads);
}

}  // namespace test_files_events
}  // namespace ravine
