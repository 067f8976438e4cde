#include "files/direct_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/unit/files_temporary.h"

using namespace ravine;

namespace test_files_direct {

// Pieces of every alignment and size, in and out of step with the file, arrive as they are.
TEST(DirectFile, AnyPieces) {
  TemporaryFolder folder;
  std::mt19937_64 random(3);
  std::vector<std::byte> memory((size_t{24} << 20) + 8192);
  for (size_t i = 0; i + 8 <= memory.size(); i += 8) {
    const uint64_t word = random();
    std::memcpy(memory.data() + i, &word, 8);
  }
  std::byte* base = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory.data()) + 4095) / 4096 * 4096);
  for (int trial = 0; trial < 12; ++trial) {
    std::vector<std::span<const std::byte>> pieces;
    size_t total = 0;
    for (int i = 0; i < 6; ++i) {
      size_t from = random() % 9000, n = random() % (size_t{1} << (10 + random() % 14));
      if (i % 3 == 1) from = total % 4096;  // in step: goes straight
      if (i % 3 == 2) from = 0, n = n / 4096 * 4096;
      pieces.push_back({base + from, n});
      total += n;
    }
    std::string expected;
    Checksum sum, whole;
    const std::string path = folder / fmt::format("f{}", trial);
    {
      DirectFile file(path, static_cast<int64_t>(total));
      for (auto p : pieces) {
        file.append(p, sum);
        expected.append(reinterpret_cast<const char*>(p.data()), p.size());
        ASSERT_EQ(file.position(), static_cast<int64_t>(expected.size()));
      }
      EXPECT_THROW(file.append({base, 1}, sum), Error);
      file.finish();
    }
    ASSERT_TRUE(slurp(path) == expected) << "trial " << trial;
    EXPECT_EQ(sum.value(), checksum_of(std::as_bytes(std::span(expected))));
  }
  DirectFile none(folder / "empty", 0);
  none.finish();
  DirectFile lacking(folder / "short", 5);
  EXPECT_THROW(lacking.finish(), Error);
}

}  // namespace test_files_direct
