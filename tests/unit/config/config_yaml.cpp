#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>
#include <regex>

#include "base/error.h"
#include "base/json.h"
#include "config/yaml.h"

using namespace ravine;
using Kind = YamlNode::Kind;

namespace test_config_yaml {

std::string error_of(const std::string& text) {
  try {
    load_yaml(text, "f.yaml");
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

const YamlNode* at(const YamlNode::Ptr& root, const char* key) {
  const YamlNode* found = root->find(key);
  EXPECT_NE(found, nullptr) << key;
  static const YamlNode none;
  return found ? found : &none;
}

// Numbers that PyYAML takes for text and we do not: no dot, no sign of the exponent, or a sign before the dot.
bool our_extension(const YamlNode& node) {
  char* end = nullptr;
  std::string text;
  for (char c : node.text)
    if (c != '_') text += c;
  double x = std::strtod(text.c_str(), &end);
  return node.kind == Kind::real && *end == 0 && x == node.real;
}

TEST(YamlScalars, AgreeWithPyYaml) {
  Json rows = read_json(RAVINE_SOURCE_DIR "/tests/golden/yaml_scalars.json");
  ASSERT_GT(rows.size(), 500u);
  for (const Json& row : rows) {
    std::string text = row[0], kind = row[1];
    YamlNode node = resolve_scalar(text);
    SCOPED_TRACE(text + " is " + kind);
    if (kind == "null") {
      EXPECT_EQ(node.kind, Kind::null);
    } else if (kind == "bool") {
      EXPECT_EQ(node.kind, Kind::boolean);
      EXPECT_EQ(node.boolean, row[2].get<bool>());
    } else if (kind == "int") {
      std::string digits = row[2];
      if (node.kind == Kind::integer)
        EXPECT_EQ(std::to_string(node.integer), digits);
      else  // beyond 64 bits
        EXPECT_TRUE(node.kind == Kind::real && std::abs(node.real) >= 0x1p53 &&
                    std::abs(node.real / std::stod(digits) - 1) < 1e-15);
    } else if (kind == "float") {
      ASSERT_EQ(node.kind, Kind::real);
      double expected = row[2].is_string() ? std::stod(row[2].get<std::string>()) : row[2].get<double>();
      if (std::isnan(expected))
        EXPECT_TRUE(std::isnan(node.real));
      else if (text.find(':') == std::string::npos)
        EXPECT_EQ(node.real, expected);
      else  // a sum of products, in another order
        EXPECT_NEAR(node.real, expected, 4e-16 * std::abs(expected));
    } else if (node.kind != Kind::text) {
      EXPECT_TRUE(kind != "error" && our_extension(node));
    }
  }
}

TEST(YamlScalars, FloatsBeyondPyYaml) {
  for (auto [text, value] : {std::pair{"1e-5", 1e-5}, {"3E4", 3e4}, {"1.5e5", 1.5e5}, {"-.5", -.5}, {"+1e+2", 100.0}}) {
    EXPECT_EQ(resolve_scalar(text).kind, Kind::real) << text;
    EXPECT_EQ(resolve_scalar(text).real, value) << text;
  }
}

TEST(Yaml, AKeyTwiceIsRefusedInFilesWithBothLines) {
  const std::string text = "train:\n  steps: 1\nlog:\n  every: 2\ntrain:\n  seed: 3\n";
  EXPECT_EQ(error_of(text).find("'train' a second time (f.yaml:5): a key stands once, the first is in line 1"), 0u)
      << error_of(text);
  EXPECT_THROW(load_yaml("a: {b: 1, b: 2}", "f.yaml"), UserError);
  EXPECT_THROW(load_yaml("- a: 1\n  a: 1\n", "f.yaml"), UserError);
  EXPECT_EQ(at(load_yaml("{a: 1, a: 2}", "command line", false), "a")->integer, 2) << "on the command line the last wins";
  EXPECT_EQ(at(load_yaml("x: &x {a: 1}\ny: {<<: *x, a: 2}\n", "f.yaml"), "y")->find("a")->integer, 2)
      << "a merged key is not a second one";
}

TEST(Yaml, ReadsADocument) {
  auto root = load_yaml("# c\na: 2\nb: [x, 'on', on, {k: ~}]\nc:\n  - \"1\"\n  -\n", "f.yaml");
  EXPECT_EQ(at(root, "a")->integer, 2);
  EXPECT_EQ(root->fields.size(), 3u);
  const YamlNode* b = at(root, "b");
  ASSERT_EQ(b->items.size(), 4u);
  EXPECT_EQ(b->items[1]->kind, Kind::text);
  EXPECT_EQ(b->items[2]->kind, Kind::boolean);
  EXPECT_EQ(b->items[3]->find("k")->kind, Kind::null);
  EXPECT_EQ(b->line, 3);
  EXPECT_EQ(at(root, "c")->items[0]->kind, Kind::text);
  EXPECT_EQ(at(root, "c")->items[1]->kind, Kind::null);
  EXPECT_EQ(load_yaml("", "f")->kind, Kind::null);
  EXPECT_EQ(load_yaml("# only a comment\n", "f")->kind, Kind::null);
}

TEST(Yaml, TagsAnchorsAndMerges) {
  auto root =
      load_yaml("a: !!str 1\nb: !!float 1\nbase: &b {x: 1, y: 2}\nd: {<<: *b, y: 3}\ne: {<<: [{x: 5}, *b]}\nf: *b\n", "f");
  EXPECT_EQ(at(root, "a")->kind, Kind::text);
  EXPECT_EQ(at(root, "b")->kind, Kind::real);
  EXPECT_EQ(at(root, "d")->find("x")->integer, 1);
  EXPECT_EQ(at(root, "d")->find("y")->integer, 3);
  EXPECT_EQ(at(root, "e")->find("x")->integer, 5) << "the first map of a merge wins";
  EXPECT_EQ(at(root, "f"), at(root, "base")) << "an alias shares its anchor's node";
}

TEST(Yaml, RefusesWithLocationRuleAndFix) {
  EXPECT_EQ(
      error_of("a: 1\nb: *x\n"),
      "alias *x (f.yaml:2): no such anchor before it; define &x first, or put values that start with * in quotes: ['*x']");
  EXPECT_EQ(error_of("a: &a [1, *a]\n"), "alias *a (f.yaml:1): it stands inside the value it names; remove the loop");
  EXPECT_EQ(error_of("a: !!python/name:os.system x\n"),
            "tag tag:yaml.org,2002:python/name:os.system (f.yaml:1): only the tags of plain YAML are read; remove the tag");
  EXPECT_EQ(error_of("a: !!int x\n"), "'x' (f.yaml:1): not of its tag tag:yaml.org,2002:int; remove the tag");
  EXPECT_EQ(error_of("a: 1\n---\nb: 2\n"),
            "a second document (f.yaml:2): a file holds one document; remove everything from the second '---' on");
  EXPECT_EQ(error_of("? [a]\n: 1\n"),
            "a key that is a list or map (f.yaml:1): keys are plain words; check indentation and brackets");
  EXPECT_EQ(error_of("<<: 1\n"),
            "merge key << (f.yaml:1): its value must be a map or a list of maps; name an anchor of a map: <<: *name");
  EXPECT_EQ(error_of("a: 1\n b: 2\n").substr(0, 24), "not valid YAML (f.yaml:2");
  EXPECT_EQ(error_of("a: [1\n").substr(0, 22), "not valid YAML (f.yaml");
  EXPECT_EQ(error_of("a: \xff\n").find("not valid YAML (f.yaml"), 0u);
  EXPECT_EQ(error_of(std::string(100, '[') + std::string(100, ']')),
            "nested too deep (f.yaml:1): at most 64 levels; flatten the document");
  EXPECT_EQ(error_of(std::string(size_t{kYamlBytes} + 1, ' ')),
            "a YAML text of 4194305 bytes (f.yaml): at most 4 MiB; is this the right file?");
  EXPECT_THROW(read_yaml("/does/not/exist.yaml"), UserError);
  EXPECT_THROW(read_yaml(RAVINE_SOURCE_DIR "/src"), UserError);
}

TEST(Yaml, AGlobOfTheCommandLineIsText) {
  const YamlNode::Ptr glob = load_yaml("*embed*", "command line", false);
  EXPECT_EQ(glob->kind, YamlNode::Kind::text);
  EXPECT_EQ(glob->text, "*embed*");
  EXPECT_EQ(load_yaml("[a, '*b']", "command line", false)->items[1]->text, "*b");
  EXPECT_THROW(load_yaml("*embed*", "f.yaml"), UserError);
}

TEST(Yaml, BillionLaughsIsBounded) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    std::string one = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + one;
    for (int k = 1; k < 10; ++k) text += ", " + one;
    text += "]\n";
  }
  EXPECT_NE(error_of(text).find("too many values (f.yaml:"), std::string::npos);
}

// Other programs read these files. PyYAML decides which texts need quotes.
TEST(Yaml, TextsAreQuotedWherePyYamlReadsSomethingElse) {
  const Json rows = read_json(RAVINE_SOURCE_DIR "/tests/golden/yaml_texts.json");
  ASSERT_GT(rows.size(), 500u);
  size_t plain = 0;
  for (const Json& row : rows) {
    const std::string text = row[0], quoted = row[2], written = yaml_text(text);
    plain += written == text;
    EXPECT_TRUE(written == quoted || (written == text && row[1].get<bool>()))
        << Json(text).dump() << " is written as " << written << " instead of " << quoted;
  }
  EXPECT_GT(plain, 50u);
}

TEST(Yaml, TextsAndNumbersRoundTrip) {
  std::mt19937_64 draw(7);
  std::vector<std::string> texts = {
      "",     "yes",  "null",   "~",      "1",      "1e5",        "a b",    "a: b", "#x",         " a",   "a ",
      "-",    "---",  "...",    "=",      "<<",     "*a",         "&a",     "'",    "\"",         "\\",   "\n",
      "a\tb", "\x7f", "\u0085", "\u2028", "\ufeff", "\U0001F600", "\uffff", "é",    "2001-12-14", "1:30", "@x",
      "%x",   "`x",   "!x",     "|",      ">",      "[",          "{a",     "a,b",  "a\r\nb",     "0x1",  "._"};
  const std::vector<std::string> parts = {"a", "1", ":", " ",      "#", "\"", "\\",   "\n", "é",
                                          "-", "*", ".", "\u2029", "e", "_",  "\x01", "'"};
  for (int i = 0; i < 5000; ++i) {
    std::string text;
    for (uint64_t n = draw() % 8; n > 0; --n) text += parts[draw() % parts.size()];
    texts.push_back(text);
  }
  for (const std::string& text : texts) {
    auto root = load_yaml("k: [" + yaml_text(text) + "]\n", "f");
    ASSERT_EQ(root->find("k")->items.size(), 1u) << yaml_text(text);
    EXPECT_EQ(root->find("k")->items[0]->kind, Kind::text) << yaml_text(text);
    EXPECT_EQ(root->find("k")->items[0]->text, text);
  }
  EXPECT_THROW(yaml_text("\xff"), UserError);
  // A float for every reader: yaml.org/type/float.html.
  const std::regex yaml_1_1("[-+]?[0-9][0-9_]*\\.[0-9_]*([eE][-+][0-9]+)?|[-+]?\\.inf|\\.nan");
  for (double x : {1e300, -1e-5, 1e16, 2e-7, 5e-324, 1e22, 0.0, 3.0})
    EXPECT_TRUE(std::regex_match(yaml_real(x), yaml_1_1)) << yaml_real(x);  // no digits behind a dot
  for (int i = 0; i < 20000; ++i) {
    double x = std::bit_cast<double>(draw());
    YamlNode node = resolve_scalar(yaml_real(x));
    ASSERT_EQ(node.kind, Kind::real) << yaml_real(x);
    ASSERT_TRUE(std::regex_match(yaml_real(x), yaml_1_1)) << yaml_real(x);
    if (!std::isnan(x)) {
      EXPECT_EQ(std::bit_cast<uint64_t>(node.real), std::bit_cast<uint64_t>(x)) << yaml_real(x);
    }
  }
}

TEST(Yaml, RandomBytesNeverCrash) {
  std::mt19937_64 draw(11);
  const std::string marks = "[]{}:,-?*&!|>'\"%@`#~ \n\t<=.0123abct\xc3\xa9\xff";
  for (int i = 0; i < 5000; ++i) {
    std::string text;
    for (uint64_t n = draw() % 60; n > 0; --n) text += draw() % 20 ? marks[draw() % marks.size()] : static_cast<char>(draw());
    try {
      load_yaml(text, "f");
      resolve_scalar(text);
    } catch (const UserError&) {
    }
  }
}

}  // namespace test_config_yaml
