// Small parts that readers of data share: texts as JSON, how much memory is taken as tokens come in.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "data/record_reader.h"
#include "data/token_store.h"

namespace ravine {
namespace test_data_small {

TEST(JsonStrings, HoldEveryByteOfAText) {
  std::string all;
  for (int c = 0; c < 0x80; ++c) all += static_cast<char>(c);
  for (const std::string& text :
       {all, std::string("plain"), std::string(), std::string("\"\\"), std::string("end\n"), std::string("\tbegin"),
        std::string("\xC3\xA9 \xE5\xB1\xB1 \xF0\x9F\x98\x80"), std::string(3, '\0')}) {
    std::string out = "x";
    append_json_string(out, text);
    ASSERT_EQ(out[0], 'x') << "what was there stays";
    EXPECT_EQ(Json::parse(out.substr(1)), Json(text)) << out;
  }
}

// Twice what is held, so that growing takes time in proportion to the data; what is asked for where that is more.
TEST(HeldCapacity, GrowsByTwoOrByWhatComes) {
  EXPECT_EQ(held_capacity(0, 10, 4, "x"), 10u);
  EXPECT_EQ(held_capacity(100, 10, 4, "x"), 200u);
  EXPECT_EQ(held_capacity(100, 150, 4, "x"), 250u);
  EXPECT_THROW(held_capacity(size_t{1} << 44, size_t{1} << 44, 4, "x"), Error) << "128 TiB are not free";
}

}  // namespace test_data_small
}  // namespace ravine
