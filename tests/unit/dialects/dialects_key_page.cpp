// The texts of a dialect for users: the page of its keys, and the explanation as a table.
#include "dialects/key_page.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "base/text.h"

namespace ravine {
namespace test_dialects_key_page {

TEST(KeyPage, DocsPagesAreCurrent) {
  for (const auto& [command, sections] : {std::pair{"mindformers", mindformers_key_sections()},
                                          {"megatron", megatron_key_sections()},
                                          {"trainer", trainer_key_sections()}}) {
    std::ifstream file(std::string(RAVINE_SOURCE_DIR "/docs/keys-") + command + ".md");
    std::stringstream text;
    text << file.rdbuf();
    EXPECT_EQ(text.str(), key_page(command, sections))
        << "run: ravine " << command << " --keys > docs/keys-" << command << ".md";
  }
}

// Every row has an option or a reason, and every key has one row under a heading.
TEST(KeyPage, EveryRowHasAText) {
  for (const auto& sections : {mindformers_key_sections(), megatron_key_sections(), trainer_key_sections()}) {
    size_t rows = 0;
    for (const KeySection& section : sections) {
      std::set<std::string> seen;
      for (const DialectKey& row : section.rows) {
        ++rows;
        EXPECT_TRUE(seen.insert(row.key).second) << section.title << ": " << row.key << " twice";
        EXPECT_NE(row.status == KeyStatus::used ? row.option : row.reason, "") << section.title << ": " << row.key;
      }
    }
    EXPECT_GT(rows, 150u);
  }
}

TEST(KeyPage, CellsStayCells) {
  const std::string page =
      key_page("x", {{"Here", {used("--a|b", KeyType::whole, "train.steps"), refused("--c", KeyType::text, "no <tag>")}}});
  EXPECT_NE(page.find("## Here\n\n| key | type | status | option or reason |\n|---|---|---|---|\n"
                      "| `--a\\|b` | a whole number | used | train.steps |\n| `--c` | a text | refused | no &lt;tag> |\n"),
            std::string::npos)
      << page;
}

Translation job() {
  Translation t =
      translate({used("--steps", KeyType::whole, "train.steps"),
                 inert("--a-flag-with-a-name-longer-than-any-column-is-wide", KeyType::text, "nobody needs it"),
                 inert("--log", KeyType::text, "lines of the log have their own form, and it is the same for all runs"),
                 refused("--no", KeyType::on, "there is no such thing")},
                {{"--steps", 20, "command line"},
                 {"--a-flag-with-a-name-longer-than-any-column-is-wide", "x", "command line"},
                 {"--log", "\x1b[31m" + std::string(60, 'v'), "command line"},
                 {"--no", true, "command line"}},
                "test");
  t.derive("derived.lr", {{"1", 0.5}});
  return t;
}

TEST(ExplanationTable, GroupsRefusedFirstInColumns) {
  const std::string text = explanation_table(job(), 120);
  size_t at = 0;
  for (const char* title :
       {"refused (1)\n  --no ", "\nused: the option that the key leads to (1)\n  --steps ",
        "\ninert: why the key has no effect (2)\n  --a-flag", "\nderived from several keys (1)\n  derived.lr "}) {
    const size_t next = text.find(title, at);
    ASSERT_NE(next, std::string::npos) << title << "\n" << text;
    at = next;
  }
  // the last column begins at the same column in every line
  std::set<size_t> columns;
  for (const std::string& line : split(text, '\n'))
    for (const char* phrase : {"there is no such", "train.steps", "nobody needs", "lines of the log"})
      if (const size_t column = line.find(phrase); column != std::string::npos) columns.insert(column);
  EXPECT_EQ(columns.size(), 1u) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(ExplanationTable, WrapsAtTheWidth) {
  for (const size_t width : {100u, 120u, 200u})
    for (const std::string& line : split(explanation_table(job(), width), '\n'))
      if (line.find("vvvv") == std::string::npos) EXPECT_LE(line.size(), width) << line;
  const std::string narrow = explanation_table(job(), 20);
  for (const char* word : {"form,", "runs", "thing"}) EXPECT_NE(narrow.find(word), std::string::npos) << narrow;
}

}  // namespace test_dialects_key_page
}  // namespace ravine
