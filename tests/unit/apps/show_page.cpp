// A page as a terminal of few columns shows it.
#include "apps/show_page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

using namespace ravine;

namespace test_show_page {

const std::string kPage =
    "try: a summary that is longer than forty columns of a terminal\n\nFlags:\n"
    "  --threads N     threads for compute; 0: all cores of this process\n"
    "  --word          aWordThatIsLongerThanTheWholeTerminalAndStaysWholeAsItIs end\n";

TEST(ShowPage, ASecondColumnIsWrappedWithinItself) {
  const std::string page = page_on_terminal(kPage, 44, false);
  EXPECT_NE(page.find("  --threads N     threads for compute; 0:\n                  all cores of this process\n"),
            std::string::npos)
      << page;
  EXPECT_NE(page.find("AsItIs\n                  end\n"), std::string::npos) << page;
  EXPECT_NE(page.find("longer than forty\ncolumns of a terminal\n"), std::string::npos) << page;
}

TEST(ShowPage, NoWordIsLost) {
  const auto words = [](const std::string& text) {
    std::vector<std::string> out;
    std::istringstream in(text);
    for (std::string w; in >> w;) out.push_back(w);
    return out;
  };
  for (int columns = -1; columns < 130; ++columns) {
    const std::string page = page_on_terminal(kPage, columns, false);
    EXPECT_EQ(words(page), words(kPage)) << columns;
    std::istringstream lines(page);
    for (std::string line; std::getline(lines, line);)
      EXPECT_TRUE(line.size() <= static_cast<size_t>(std::max(columns, 20)) || line.find("aWord") != std::string::npos) << line;
  }
}

TEST(ShowPage, HeadingsAreBold) {
  EXPECT_NE(page_on_terminal(kPage, 80, true).find("\033[1mFlags:\033[0m\n"), std::string::npos);
  EXPECT_EQ(page_on_terminal(kPage, 80, true).find("\033[1mtry"), std::string::npos);
  EXPECT_EQ(page_on_terminal(kPage, 200, false), kPage);
}

}  // namespace test_show_page
