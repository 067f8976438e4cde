// Strings found in texts, by both searches, against the definition: the leftmost first, among these the longest,
// without overlaps.
#include "text/tokenizers/string_finder.h"

#include <gtest/gtest.h>

#include <random>

namespace ravine {
namespace test_string_finder {

using Found = std::vector<std::tuple<size_t, size_t, int32_t>>;

Found by_definition(const std::vector<std::string>& strings, std::string_view text) {
  Found out;
  for (size_t at = 0; at < text.size();) {
    int32_t best = -1;
    for (size_t k = 0; k < strings.size(); ++k)
      if (text.substr(at).starts_with(strings[k]) &&
          (best < 0 || strings[k].size() > strings[static_cast<size_t>(best)].size()))
        best = static_cast<int32_t>(k);
    if (best < 0) {
      ++at;
      continue;
    }
    const size_t end = at + strings[static_cast<size_t>(best)].size();
    out.emplace_back(at, end, best);
    at = end;
  }
  return out;
}

Found found(const std::vector<std::string>& strings, std::string_view text) {
  StringFinder finder;
  for (size_t k = 0; k < strings.size(); ++k) finder.add(strings[k], static_cast<int32_t>(k));
  Found out;
  StringFinder::Search search(finder, text);
  for (StringFinder::Match m{}; search.next(m);) out.emplace_back(m.begin, m.end, m.value);
  return out;
}

TEST(StringFinder, LeftmostLongestAsDefined) {
  std::mt19937 draw(3);
  auto word = [&](size_t most, int letters) {
    std::string s;
    for (size_t n = 1 + draw() % most; n > 0; --n) s += static_cast<char>('a' + draw() % static_cast<uint32_t>(letters));
    return s;
  };
  for (int round = 0; round < 300; ++round) {
    const int letters = 1 + static_cast<int>(draw() % 3);
    std::vector<std::string> strings;
    for (size_t n = 1 + draw() % 12; n > 0; --n) strings.push_back(word(8, letters));
    const std::string text = word(60, letters) + word(60, letters + 1);
    ASSERT_EQ(found(strings, text), by_definition(strings, text)) << text;
  }
}

// Strings that share long beginnings, so that the walk is given up in the middle of the text for the way from its end.
TEST(StringFinder, LongSharedBeginnings) {
  for (const std::string& extra : {std::string("aa"), std::string("ba"), std::string("aaab")}) {
    std::vector<std::string> strings{extra};
    for (size_t n = 5; n < 400; n += 7) strings.push_back(std::string(n, 'a') + "z");
    std::string text;
    for (size_t n : {300, 41, 5, 1000, 3}) text += std::string(n, 'a') + "b" + std::string(n / 2, 'a') + "z";
    ASSERT_EQ(found(strings, text), by_definition(strings, text)) << extra;
  }
}

TEST(StringFinder, NothingToFind) {
  EXPECT_TRUE(found({}, "abc").empty());
  EXPECT_TRUE(found({""}, "abc").empty());
  EXPECT_TRUE(found({"abc"}, "").empty());
  EXPECT_EQ(found({"c"}, "abc"), (Found{{2, 3, 0}}));
}

}  // namespace test_string_finder
}  // namespace ravine
