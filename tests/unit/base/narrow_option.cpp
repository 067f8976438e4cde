#include "base/narrow_option.h"

#include <gtest/gtest.h>

using namespace ravine;

namespace test_narrow_option {

TEST(NarrowOption, KeepsTheValueOrNamesTheOption) {
  EXPECT_EQ(narrow_option<int>(INT32_MAX, "x"), INT32_MAX);
  EXPECT_EQ(narrow_option<int>(INT32_MIN, "x"), INT32_MIN);
  EXPECT_EQ(narrow_option<uint32_t>(4294967295, "x"), 4294967295u);
  EXPECT_EQ(narrow_option<uint64_t>(INT64_MAX, "x"), uint64_t{INT64_MAX});
  EXPECT_EQ(narrow_option<int64_t>(INT64_MIN, "x"), INT64_MIN);
  auto refused = [](auto f) {
    try {
      f();
    } catch (const UserError& e) {
      return std::string(e.what()).find("checkpoint.keep is ") == 0;
    }
    return false;
  };
  EXPECT_TRUE(refused([] { narrow_option<int>(4294967297, "checkpoint.keep"); }));
  EXPECT_TRUE(refused([] { narrow_option<int>(int64_t{INT32_MIN} - 1, "checkpoint.keep"); }));
  EXPECT_TRUE(refused([] { narrow_option<uint32_t>(-1, "checkpoint.keep"); }));
  EXPECT_TRUE(refused([] { narrow_option<uint32_t>(4294967296, "checkpoint.keep"); }));
  EXPECT_TRUE(refused([] { narrow_option<size_t>(-1, "checkpoint.keep"); }));
}

}  // namespace test_narrow_option
