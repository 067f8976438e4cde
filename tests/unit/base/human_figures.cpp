// Texts for users: lines without foreign control characters, and times, sizes and counts at the limits of their units.
#include "base/log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_human_figures {

TEST(Log, NoControlCharacterReachesTheTerminalOrTheFile) {
  TemporaryFolder folder;
  testing::internal::CaptureStderr();
  {
    Log log;
    log.open(folder / "log.txt");
    log.warn("a{}b", "\x1b[2J");
    log.line("{}", "c\rd\x07\x9b\xe2\x80\xae\tkept\nkept");
  }
  const std::string want = "warning: a\\x1b[2Jb\nc\\rd\\x07\\x9b\\u202e\tkept\nkept\n";
  EXPECT_EQ(testing::internal::GetCapturedStderr(), want);
  EXPECT_EQ(slurp(folder / "log.txt"), want);
}

TEST(Errors, ANulByteDoesNotEndThem) {
  const std::string name("a\0b\0", 4);
  EXPECT_STREQ(UserError("no tensor " + name, name, "it has a name", "rename it").what(),
               "no tensor a\\x00b\\x00 (a\\x00b\\x00): it has a name; rename it");
  EXPECT_STREQ(Error(name + "c").what(), "a\\x00b\\x00c");
}

TEST(Log, AQuietOneWritesItsFileAlone) {
  TemporaryFolder folder;
  testing::internal::CaptureStderr();
  {
    Log log;
    log.quiet(true);
    log.open(folder / "log.txt");
    log.line("one");
    log.progress(0.5, "no terminal");
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(slurp(folder / "log.txt"), "one\n");
}

TEST(Human, TimesWhereUnitsMeet) {
  for (const auto& [seconds, text] : std::vector<std::pair<double, const char*>>{{0, "0.0 s"},
                                                                                 {0.04, "0.0 s"},
                                                                                 {9.94, "9.9 s"},
                                                                                 {9.96, "10 s"},
                                                                                 {10, "10 s"},
                                                                                 {59.4, "59 s"},
                                                                                 {59.6, "1m 00s"},
                                                                                 {60, "1m 00s"},
                                                                                 {61, "1m 01s"},
                                                                                 {3599.4, "59m 59s"},
                                                                                 {3599.6, "1h 00m"},
                                                                                 {3600, "1h 00m"},
                                                                                 {3659, "1h 00m"},
                                                                                 {5400, "1h 30m"},
                                                                                 {86399, "23h 59m"},
                                                                                 {86399.6, "1d 00h"},
                                                                                 {86400, "1d 00h"},
                                                                                 {90000, "1d 01h"},
                                                                                 {172800 + 23 * 3600, "2d 23h"},
                                                                                 {-1, "?"},
                                                                                 {std::numeric_limits<double>::infinity(), "?"},
                                                                                 {std::nan(""), "?"}})
    EXPECT_EQ(human_time(seconds), text) << seconds;
}

// A unit is left where its number would be shown as a whole one of the next: never "1024.0 KiB".
TEST(Human, BytesWhereUnitsMeet) {
  constexpr double k = 1024;
  for (const auto& [bytes, text] : std::vector<std::pair<double, const char*>>{{0, "0 B"},
                                                                               {1, "1 B"},
                                                                               {1023, "1023 B"},
                                                                               {1023.4, "1023 B"},
                                                                               {1023.6, "1.0 KiB"},
                                                                               {1024, "1.0 KiB"},
                                                                               {1536, "1.5 KiB"},
                                                                               {k * k - 1, "1.0 MiB"},
                                                                               {1023.9 * k, "1023.9 KiB"},
                                                                               {k * k, "1.0 MiB"},
                                                                               {k * k * k - 1, "1.0 GiB"},
                                                                               {1.5 * k * k * k, "1.5 GiB"},
                                                                               {k * k * k * k, "1.0 TiB"},
                                                                               {5000 * k * k * k * k, "5000.0 TiB"},
                                                                               {-k, "-1.0 KiB"}})
    EXPECT_EQ(human_bytes(bytes), text) << bytes;
}

TEST(Human, CountsWhereUnitsMeet) {
  for (const auto& [count, text] : std::vector<std::pair<double, const char*>>{{0, "0"},
                                                                               {999, "999"},
                                                                               {999.6, "1.0 k"},
                                                                               {1000, "1.0 k"},
                                                                               {1500, "1.5 k"},
                                                                               {999949, "999.9 k"},
                                                                               {999950, "1.0 M"},
                                                                               {1e6, "1.0 M"},
                                                                               {134.1e6, "134.1 M"},
                                                                               {999.96e6, "1.0 G"},
                                                                               {1e9, "1.0 G"},
                                                                               {1e12, "1.0 T"},
                                                                               {5e15, "5000.0 T"}})
    EXPECT_EQ(human_count(count), text) << count;
}

}  // namespace test_human_figures
}  // namespace ravine
