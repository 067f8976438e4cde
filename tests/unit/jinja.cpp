// Templates against Jinja as Transformers sets it up (tools/golden/templates.txt), and bounds.
#include <gtest/gtest.h>

#include "data/jinja/render.h"
#include "data/tokenizers/chat_template.h"
#include "tests/unit/data_help.h"

namespace ravine {
namespace {

using jinja::Template;
using jinja::TemplateError;
using test::Folder;
const std::string kGolden = std::string(RAVINE_SOURCE_DIR) + "/tests/golden/";

TEST(Jinja, as_recorded) {
  Json want = read_json(kGolden + "jinja.json");
  size_t errors = 0;
  for (const auto& row : want["rows"]) {
    std::string source = row["template"];
    SCOPED_TRACE(source);
    Json variables{{"messages", want["messages"][row["messages"].get<size_t>()]}, {"tools", nullptr}, {"documents", nullptr},
                   {"add_generation_prompt", true}, {"bos_token", "<s>"}, {"eos_token", "</s>"}};
    try {
      std::string text = Template(source).render(variables);
      EXPECT_TRUE(row.contains("text")) << text;
      if (row.contains("text")) {
        EXPECT_EQ(text, row["text"].get<std::string>());
      }
    } catch (const TemplateError& e) {
      EXPECT_TRUE(row.contains("error")) << e.what();
      ++errors;
    }
  }
  EXPECT_GE(want["rows"].size(), 80u);
  EXPECT_GE(errors, 8u);
}

std::string error_of(const std::string& source) {
  try {
    return "rendered: " + Template(source).render(Json::object()).substr(0, 100);
  } catch (const TemplateError& e) {
    return e.what();
  }
}

TEST(Jinja, work_and_memory_are_bounded) {
  EXPECT_NE(error_of("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}").find("too much memory"), std::string::npos);
  EXPECT_NE(error_of("{% for i in range(90000) %}{{ i * i + i - i * i // 3 > 1 and i % 7 == 3 or i < 5 }}{{ [i, i][0] + [i][0] * (i + 1) * (i - 1) }}{{ i }}{{ i }}{{ i + i + i + i + i + i + i + i + i + i + i + i }}{% endfor %}").find("too many steps"), std::string::npos);
  EXPECT_NE(error_of("{{ 'x' * 1000000000 }}").find("too much text"), std::string::npos);
  EXPECT_NE(error_of("{{ range(1000000) }}").find("range too big"), std::string::npos);
  EXPECT_NE(error_of("{% set ns = namespace(s='xxxxxxxxxxxxxxxx') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}").find("too much memory"),
            std::string::npos);
  EXPECT_NE(error_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").find("too deeply"), std::string::npos);
  EXPECT_NE(error_of("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}").find("too deeply"), std::string::npos);
  std::string chain = "{{ 1";
  for (int i = 0; i < 5000; ++i) chain += " + 1";
  EXPECT_NE(error_of(chain + " }}").find("too deeply"), std::string::npos);
  std::string blocks;
  for (int i = 0; i < 5000; ++i) blocks += "{% if 1 %}";
  EXPECT_NE(error_of(blocks).find("too deeply"), std::string::npos);
  EXPECT_NE(error_of("{{ 9223372036854775807 + 1 }}").find("too large"), std::string::npos);
  EXPECT_NE(error_of("{{ [1] * 100000000 }}").find("too long"), std::string::npos);
}

TEST(Jinja, nothing_is_reached_from_within) {
  for (const char* source : {"{% include 'a' %}", "{% import 'a' as b %}", "{% extends 'a' %}", "{% block a %}{% endblock %}"})
    EXPECT_NE(error_of(source).find("unknown block"), std::string::npos) << source;
  EXPECT_EQ(error_of("{{ ''.__class__ }}"), "rendered: ");
}

TEST(ChatTemplates, of_a_folder) {
  Folder f;
  f.write("a/tokenizer_config.json", R"({"eos_token": {"content": "</s>"}, "chat_template": [{"name": "tool", "template": "no"},
      {"name": "default", "template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ add_generation_prompt }}"}]})");
  f.write("a/special_tokens_map.json", R"({"bos_token": "<s>", "eos_token": "<old>"})");
  Json chat{{"messages", {{{"role", "user"}, {"content", "hi"}}}}};
  EXPECT_EQ(load_chat_template(f / "a")->render(chat), "<s>hi</s>False");
  f.write("a/chat_template.jinja", "{{ messages[0].role }}\n");
  EXPECT_EQ(load_chat_template(f / "a")->render(chat), "user");
  f.write("b/tokenizer_config.json", "{}");
  EXPECT_EQ(load_chat_template(f / "b"), nullptr);
  f.write("b/chat_template.jinja", "{{ oops");
  EXPECT_USER_ERROR(load_chat_template(f / "b"), "line 1: a tag does not end");
}

}  // namespace
}  // namespace ravine
