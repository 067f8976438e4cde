// Templates against Jinja as Transformers sets it up (tools/golden/templates.txt), and bounds.
#include <gtest/gtest.h>

#include <optional>

#include "tests/unit/text_help.h"
#include "text/chat/chat_template.h"
#include "text/jinja/render.h"

namespace ravine {
namespace test_jinja {

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
    Json variables{{"messages", want["messages"][row["messages"].get<size_t>()]},
                   {"tools", nullptr},
                   {"documents", nullptr},
                   {"add_generation_prompt", true},
                   {"bos_token", "<s>"},
                   {"eos_token", "</s>"}};
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

// A result is equal to Jinja2 3.1's, or is refused with the line.
TEST(Jinja, numbers_and_widths_beyond_bounds) {
  auto text = [](const std::string& source) { return Template(source).render({}); };
  auto refused = [&](const std::string& source, const char* rule) {
    try {
      ADD_FAILURE() << source << ": " << text(source);
    } catch (const TemplateError& e) {
      EXPECT_NE(std::string(e.what()).find(rule), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("line 2"), std::string::npos) << e.what();
    }
  };
  for (const char* big : {"{{ 9223372036854775808 }}", "{{ '9223372036854775808'|int }}", "{{ '-1e30'|int }}", "{{ 1e30|int }}",
                          "{{ 1e400|int }}"})
    refused(std::string("\n") + big, "a whole number beyond 64 bits");
  refused("\n{{ 'a'|center(200001) }}", "center takes a width of 100000 at most");
  refused("\n{{ [1]|tojson(indent=1001) }}", "tojson takes an indent of 1000 at most");
  EXPECT_EQ(text("{{ 9223372036854775807 }} {{ '-9223372036854775808'|int }} {{ '9000000000000000001'|int }}"),
            "9223372036854775807 -9223372036854775808 9000000000000000001");
  EXPECT_EQ(text("{{ 1e400 }} {{ -1e400 }} {{ 1e-400 }} {{ '1e400'|float }} {{ '1e400'|int(7) }}"), "inf -inf 0.0 inf 7");
  EXPECT_EQ(text("{{ [1]|tojson(indent=100) }}"), "[\n" + std::string(100, ' ') + "1\n]");
  EXPECT_EQ(text("{{ \"it's a b-c, d_e é 河\"|wordcount }}"), "8");
}

TEST(Jinja, ranges_are_no_lists_in_print) {
  auto text = [](const std::string& source) { return Template(source).render({}); };
  EXPECT_EQ(text("{{ range(3)|list }} {{ range(3)|tojson if false }}{% for i in range(2) %}{{ i }}{% endfor %}"),
            "[0, 1, 2] 01");
  for (const char* source : {"\n{{ range(3) }}", "\n{{ range(3)|tojson }}", "\n{{ [range(3)] }}", "\n{{ range(0)|string }}"})
    try {
      ADD_FAILURE() << source << text(source);
    } catch (const TemplateError& e) {
      EXPECT_NE(std::string(e.what()).find("a range is written as a list: range(..)|list, line 2"), std::string::npos)
          << e.what();
    }
}

TEST(Jinja, what_cannot_be_printed_is_escaped_in_lists) {
  EXPECT_EQ(Template("{{ ['a\xc2\xa0\xe2\x80\x8b\xe3\x80\x80é河\xf3\xa0\x80\x81 '] }}").render({}),
            "['a\\xa0\\u200b\\u3000é河\\U000e0001 ']");
}

TEST(Jinja, decimals_to_round_to_without_end) {
  for (const char* precisions : {"-9223372036854775807 - 1", "-400", "-308"}) {
    EXPECT_EQ(Template(fmt::format("{{{{ 1.5|round({}) }}}} {{{{ 5|round({}) }}}}", precisions, precisions)).render({}),
              "0.0 0");
    EXPECT_EQ(Template(fmt::format("{{{{ 1.5|round({}, 'floor') }}}}", precisions)).render({}), "0.0");
  }
  EXPECT_EQ(Template("{{ 1.5|round(9223372036854775807) }}").render({}), "1.5");
}

// tools/golden/make_jinja_words.py: each filter, test, method and operator with arguments that tell its branches apart.
TEST(Jinja, every_word_as_recorded) {
  const Json want = read_json(kGolden + "jinja_words.json");
  const Json variables{{"messages", want["messages"]},  {"tools", nullptr},   {"documents", nullptr},
                       {"add_generation_prompt", true}, {"bos_token", "<s>"}, {"eos_token", "</s>"}};
  for (const Json& row : want["rows"]) {
    const std::string source = row[0];
    try {
      const std::string text = Template(source).render(variables);
      EXPECT_EQ(Json(text), row[1]) << source;
    } catch (const TemplateError& e) {
      EXPECT_TRUE(row[1].is_null()) << source << " is " << row[1] << ", refused: " << e.what();
    }
  }
  EXPECT_GE(want["rows"].size(), 600u);
  for (const std::string source : want["refused"]) EXPECT_THROW(Template(source).render(variables), TemplateError) << source;
}

std::string error_of(const std::string& source) {
  try {
    return "rendered: " + Template(source).render(Json::object()).substr(0, 100);
  } catch (const TemplateError& e) {
    return e.what();
  }
}

TEST(Jinja, work_and_memory_are_bounded) {
  EXPECT_NE(
      error_of("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}").find("too much memory"),
      std::string::npos);
  EXPECT_NE(
      error_of(
          "{% for i in range(90000) %}{{ i * i + i - i * i // 3 > 1 and i % 7 == 3 or i < 5 }}{{ [i, i][0] + [i][0] * (i + 1) * (i - 1) }}{{ i }}{{ i }}{{ i + i + i + i + i + i + i + i + i + i + i + i }}{% endfor %}")
          .find("too many steps"),
      std::string::npos);
  EXPECT_NE(error_of("{{ 'x' * 1000000000 }}").find("too much text"), std::string::npos);
  EXPECT_NE(error_of("{{ range(1000000) }}").find("range too big"), std::string::npos);
  EXPECT_NE(
      error_of("{% set ns = namespace(s='xxxxxxxxxxxxxxxx') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}")
          .find("too much memory"),
      std::string::npos);
  EXPECT_NE(error_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").find("too deeply"), std::string::npos);
  EXPECT_NE(error_of("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}").find("too deeply"),
            std::string::npos);
  std::string chain = "{{ 1";
  for (int i = 0; i < 5000; ++i) chain += " + 1";
  EXPECT_NE(error_of(chain + " }}").find("too deeply"), std::string::npos);
  std::string blocks;
  for (int i = 0; i < 5000; ++i) blocks += "{% if 1 %}";
  EXPECT_NE(error_of(blocks).find("too deeply"), std::string::npos);
  EXPECT_NE(error_of("{{ 9223372036854775807 + 1 }}").find("too large"), std::string::npos);
  EXPECT_NE(error_of("{{ [1] * 100000000 }}").find("too long"), std::string::npos);
}

// Chains of values hold each other, in lists, dicts and methods: taken apart in a destructor that calls itself.
TEST(Jinja, values_of_a_loop_are_not_nested_without_end) {
  for (const char* step : {"[n.x]", "{'a': n.x}", "{'a': n.x.get}", "(n.x, 1)", "[n.x][:]", "dict(a=n.x)", "[n.x]|map('list')",
                           "{'a': n.x}.items"})
    EXPECT_NE(error_of(std::string("{% set n = namespace(x={}) %}{% for i in range(99999) %}{% set n.x = ") + step +
                       " %}{% endfor %}")
                  .find("nested too deeply"),
              std::string::npos)
        << step;
  // A namespace may hold itself; it is not walked into.
  EXPECT_EQ(error_of("{% set n = namespace(x=1) %}{% set n.x = [n] %}{{ n.x }}{{ n.x == n.x }}"),
            "rendered: [<Namespace>]True");
}

// A value of 64 lists that is 2^64 values when it is walked through.
TEST(Jinja, shared_lists_are_counted_as_often_as_they_are_walked_through) {
  const std::string shared =
      "{% set n = namespace(x=1, y=1) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% set n.y = [n.y, n.y] %}{% endfor %}";
  for (const char* use : {"n.x == n.y",
                          "n.x != n.y",
                          "n.x < n.y",
                          "n.x >= n.y",
                          "n.x in [n.y]",
                          "[n.x, n.y]|sort",
                          "[n.x, n.y]|max",
                          "[n.x, n.y]|unique",
                          "[n.x].index(n.y)",
                          "[n.x].count(n.y)",
                          "n.x is eq(n.y)",
                          "n.x is lt(n.y)",
                          "[n.x]|select('eq', n.y)|list",
                          "{'a': n.x} == {'a': n.y}",
                          "n.x|string",
                          "n.x ~ ''",
                          "n.x|tojson",
                          "[n.x]|join",
                          "n.x is in([n.y])",
                          "[n.x] is sameas [n.y]"}) {
    const std::string message = error_of(shared + "{{ " + use + " }}");
    EXPECT_NE(message.find("too many steps"), std::string::npos) << use << ": " << message;
  }
  EXPECT_EQ(error_of(shared + "{{ n.x == n.x }}"),
            "rendered: True");  // elements that are the same object are equal, as in Python
}

// 60 calls of a macro with a deep expression, and filters that call filters: each level takes stack.
TEST(Jinja, depth_of_a_run_is_bounded) {
  std::string deep = "f(n - 1)";
  for (int i = 0; i < 24; ++i) deep = "(1 ~ " + deep + ")";
  const std::string chain = [] {
    std::string c = "0";
    for (int i = 0; i < 450; ++i) c += " + 1";
    return c;
  }();
  EXPECT_NE(error_of("{% macro f(n) %}{{ " + deep + " if n else 0 }}{% endmacro %}{{ f(59) }}").find("too deeply"),
            std::string::npos);
  EXPECT_NE(
      error_of("{% macro f(n) %}{{ f(n - 1)|int + " + chain + " if n else 0 }}{% endmacro %}{{ f(59) }}").find("too deeply"),
      std::string::npos);
  std::string maps = "'map'";
  for (int i = 0; i < 800; ++i) maps += ", 'map'";
  EXPECT_NE(error_of("{{ 'a'|map(" + maps + ")|list }}").find("too deeply"), std::string::npos);
  EXPECT_EQ(error_of("{% macro f(n) %}{{ n ~ f(n - 1) if n else '' }}{% endmacro %}{{ f(30) }}").substr(0, 18),
            "rendered: 30292827");
}

TEST(Jinja, size_of_a_template_is_bounded) {
  EXPECT_NE(error_of(std::string((1 << 20) + 1, 'x')).find("a template of 1048577 bytes, at most 1048576"), std::string::npos);
  EXPECT_EQ(error_of(std::string(1 << 20, 'x')).substr(0, 12), "rendered: xx");
}

TEST(Jinja, errors_name_the_line_and_the_file) {
  auto message = [](const char* source) {
    try {
      Template(source, "a.jinja").render(Json::object());
    } catch (const TemplateError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(message("\n\n{{ a.b }}"), "'a' is undefined, line 3 of a.jinja");
  EXPECT_EQ(message("{% macro f() %}\n{{ raise_exception('no') }}\n{% endmacro %}\n{{ f() }}"), "no, line 2 of a.jinja");
  EXPECT_EQ(message("\n{% for i in range(99999) %}\n{% for j in range(99999) %}{% endfor %}{% endfor %}"),
            "the template takes too much memory (more than 128 MiB), line 3 of a.jinja");
  EXPECT_LT(message(("{{ " + std::string(100000, 'a') + ".b }}").c_str()).size(), 200u);
}

int64_t work_of(const std::string& source, const Json& variables) {
  int64_t work = 0;
  Template(source).render(variables, &work);
  return work;
}

// Each operation counts its data: work grows with the size of its input, by at least a unit per 64 bytes or value.
TEST(Jinja, every_operation_counts_what_it_touches) {
  auto variables = [](size_t n) {
    Json numbers = Json::array(), words = Json::array(), rows = Json::array(), table = Json::object();
    for (size_t i = 0; i < n; ++i) {
      numbers.push_back(i), words.push_back(fmt::format("w{}", i)), table[fmt::format("k{}", i)] = i;
      rows.push_back({{"a", i}, {"b", {{"c", "x"}}}});
    }
    Json same = numbers, other = table;
    std::string text;
    while (text.size() < 64 * n) text += "ab c\ndé, ";
    return Json{{"s", text},  {"t", text},  {"l", numbers},
                {"m", same},  {"w", words}, {"r", rows},
                {"d", table}, {"e", other}, {"k", fmt::format("k{}", n - 1)},
                {"n", n}};
  };
  const Json small = variables(50), large = variables(450);
  for (const char* use :
       {// text: operators
        "s + t", "s ~ 1", "s == t", "s != t", "s < t", "s <= t", "'#' in s", "'#' not in s", "'ab' * n", "s[n * 60]",
        "s[:n * 60]", "s[::-1]", "s[::2]", "s[-60 * n]", "[s] == [t]",
        // text: methods
        "s.strip('abcdé, \n')", "(s ~ ' ' * n * 4).strip()", "s.lstrip()", "s.rstrip()", "s.split()", "s.split('b')",
        "s.rsplit('b')", "s.rsplit()", "s.splitlines()", "s.upper()", "s.lower()", "s.title()", "s.capitalize()",
        "s.startswith(t)", "s.endswith(t)", "s.removeprefix('a')", "s.removesuffix('b')", "s.replace('a', 'b')",
        "(s ~ 'z').find('z')", "s.rfind('#')", "(s ~ 'z').index('z')", "(s ~ 'z').rindex('a')", "s.count('a')", "s.count('')",
        "','.join(w)", "('1' * n * 9).isdigit()", "(' ' * n * 9).isspace()", "('a' * n * 9).isalpha()",
        "('a' * n * 9).isalnum()", "s.isupper()", "s.islower()",
        // text: filters and tests
        "s|trim", "s|upper", "s|lower", "s|title", "s|capitalize", "(l)|string", "s|e", "s|escape", "s|replace('a', 'b')",
        "s|replace('#', '')", "s|indent", "s|wordcount", "s|center(99999)", "s|tojson", "s|list", "s|reverse", "s|length",
        "s|count", "s|int", "s|float", "s|sort", "s|join", "s|unique", "s is eq(t)", "s is lt(t)", "s is ge(t)", "s is upper",
        "s is lower", "'#' is in(s)", "s|first", "s|batch(3)",
        // lists
        "l + m", "[1] * n", "l == m", "l != m", "l < m", "-1 in l", "l[1:]", "l[::-1]", "l[::2]", "l.index(n - 1)",
        "l.count(3)", "l|list ~ ''", "l|last ~ l", "l|reverse", "l|sort", "l|min", "l|max", "l|sum", "w|unique", "l|map('abs')",
        "r|map(attribute='b.c')", "r|map(attribute='zz', default=1)", "l|select", "l|reject('odd')", "r|selectattr('a')",
        "r|rejectattr('a', 'eq', 3)", "w|join", "w|join(',')", "r|join(',', attribute='a')", "r|sort(attribute='a')",
        "r|sum(attribute='a')", "l|batch(4)", "l|tojson", "l|string", "l is eq(m)", "l is lt(m)", "range(n)", "n in l",
        "l is sameas m", "w|map('upper')|list", "w|sort(case_sensitive=true)",
        // dicts and names
        "d == e", "k in d", "d[k]", "d.get(k)", "d.zz", "d.items()", "d.keys()", "d.values()", "d|items", "d|dictsort",
        "d|dictsort(by='value')", "d|tojson", "d|tojson(sort_keys=true)", "d|tojson(indent=2)", "d|string", "d|list",
        "d|length ~ d", "dict(d)", "namespace(d)", "dict(**d)", "f(**d)", "f(*l)", "g(l)", "g(s)"}) {
    auto work = [&](const Json& v) {
      return work_of("{% macro f() %}{% endmacro %}{% macro g(x) %}{% for i in x %}{% endfor %}{% endmacro %}{% set x = " +
                         std::string(use) + " %}",
                     v);
    };
    EXPECT_GE(work(large) - work(small), 400) << use;
  }
  for (const char* statement :
       {"{{ s }}", "{% set x %}{{ s }}{% endset %}", "{% filter upper %}{{ s }}{% endfilter %}", "{% for c in s %}{% endfor %}",
        "{% for c in l %}{% endfor %}", "{% for c in d %}{% endfor %}", "{% for c in l if c > n %}{% endfor %}",
        "{% for k, v in d.items() %}{% endfor %}", "{% for i in [1, 2] %}{{ loop.changed(s) }}{% endfor %}",
        "{% macro f() %}{{ s }}{% endmacro %}{% set x = f() %}",
        "{% macro f() %}{{ caller() }}{% endmacro %}{% call f() %}{{ s }}{% endcall %}",
        "{% set a = namespace(**d) %}{% set a.z = 1 %}"})
    EXPECT_GE(work_of(statement, large) - work_of(statement, small), 400) << statement;
}

// A name costs what it is compared with.
TEST(Jinja, names_and_literals_are_counted) {
  auto names = [](int n) {
    std::string source;
    for (int i = 0; i < n; ++i) source += fmt::format("{{% set a{} = 1 %}}", i);
    return work_of(source, Json::object());
  };
  EXPECT_GT(names(2000), 3 * names(1000));
  auto literal = [](int n, const char* entry) {
    std::string source = "{% set x = {";
    for (int i = 0; i < n; ++i) source += fmt::format(fmt::runtime(entry), i);
    return work_of(source + "} %}", Json::object());
  };
  for (const char* entry : {"{}: 1,", "'k{}': 1,"}) EXPECT_GT(literal(4000, entry), 3 * literal(2000, entry));
}

Json chat_of(size_t n, bool system = true) {
  Json messages = Json::array();
  if (system) messages.push_back({{"role", "system"}, {"content", "be short"}});
  for (size_t i = 0; messages.size() < n; ++i)
    messages.push_back(
        {{"role", i % 2 ? "assistant" : "user"}, {"content", fmt::format(" {} said {} ", i % 2 ? "it" : "who", i)}});
  return messages;
}

Json chat_variables(Json messages, bool add_generation_prompt) {
  return {{"messages", std::move(messages)},
          {"tools", nullptr},
          {"documents", nullptr},
          {"add_generation_prompt", add_generation_prompt},
          {"bos_token", "<s>"},
          {"eos_token", "</s>"}};
}

const char* const kLoops[] = {
    "{% for m in messages %}{{ m.role }}:{{ m.content }}{% endfor %}",
    "{% for m in messages %}{{ m.role }}:{{ m.content }}{% if loop.last %}!{% endif %}{% endfor %}{{ 'A:' if add_generation_prompt }}",
    "{{ bos_token }}{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}{% for m in rest %}{% if loop.index0 == 0 %}S{{ messages[0].content }}{% endif %}{{ m.content|trim }}{{ eos_token if not loop.last }}{% endfor %}",
    "{% set n = namespace(k=0, last='') %}{% for m in messages %}{% set n.k = n.k + 1 %}{{ n.k }}{{ n.last }}{% set n.last = m.role %}{% endfor %}{{ n.k }}{% if messages[-1].role == 'user' %}?{% endif %}",
    "{% macro say(m) %}[{{ m.role }}{{ caller() if caller }}]{% endmacro %}{% for m in messages %}{% call say(m) %}{{ m.content }}{% endcall %}{{ loop.cycle('a', 'b') }}{{ loop.changed(m.role) }}{% endfor %}{{ messages|length }}",
    "{% for m in messages %}{% if loop.nextitem is defined and loop.nextitem.role == 'assistant' %}>{% endif %}{{ m.content }}{{ loop.previtem.role if loop.previtem is defined }}{% endfor %}",
    "{% for m in messages %}{% if loop.index0 + 1 < messages|length %}{{ messages[loop.index0 + 1].role }}{% endif %}{{ m.content }}{% endfor %}",
    "{% for m in messages[::-1] %}{{ m.content }}{% endfor %}{% for m in messages %}{{ m.role }}{% endfor %}",
    "{% for m in messages %}{% if m.content == ' it said 5 ' %}{% break %}{% endif %}{{ m.content }}{% endfor %}{{ messages[2:4]|map(attribute='role')|join(',') }}",
    "{% for m in messages %}{% for k in messages %}{{ k.role if k.content == m.content }}{% endfor %}{% endfor %}",
    "{% for m in messages %}{% for k in messages[loop.index:] %}{% if loop.first %}{{ k.role }}{% endif %}{% break %}{% endfor %}{{ m.content }}{% endfor %}",
    "{% set l = namespace(l=none) %}{% for m in messages %}{{ l.l.index if l.l }}{% set l.l = loop %}{{ loop.revindex if m.role == 'x' }}{% endfor %}{{ l.l.index }}{{ l.l.last }}",
    "{{ messages[0].content }}{{ messages|length > 3 }}",
    "{{ messages[0].role }}",
    "{% for m in messages if m.role == 'user' %}{{ m.content }}{% else %}none{% endfor %}",
    "{% for m in messages %}{{ m.content }}{% else %}none{% endfor %}",
    "{% for m in messages %}{% set x = messages %}{{ (x == messages) ~ (m in messages) }}{% endfor %}",
    "{{ messages|tojson }}{{ messages }}{% for m in messages %}{{ m.content }}{% endfor %}",
    "{% if messages %}{{ messages|first }}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}{{ messages|last }}",
    "{% set n = namespace(all='') %}{% for m in messages %}{% set n.all = n.all ~ m.content %}{{ n.all|length }}{% endfor %}{{ n.all }}",
};

TEST(Beginnings, equal_renderings_of_the_first_elements) {
  Json recorded = read_json(kGolden + "chat/expected.json");
  std::vector<std::string> sources(std::begin(kLoops), std::end(kLoops));
  for (const auto& [name, source] : recorded["templates"].items()) sources.push_back(source);
  for (const std::string& source : sources) {
    SCOPED_TRACE(source);
    const Template t(source);
    for (bool system : {false, true})
      for (bool add_generation_prompt : {false, true})
        for (size_t step : {1, 3}) {
          const Json all = chat_of(11, system);
          std::optional<jinja::Beginnings> texts;
          std::string failed;
          auto tried = [&](auto&& what) {
            try {
              return "text: " + what();
            } catch (const TemplateError& e) {
              return "error: " + std::string(e.what());
            }
          };
          const std::string whole = tried([&] { return t.render(chat_variables(all, add_generation_prompt)); });
          if (whole.starts_with("error")) continue;  // a conversation that is refused as a whole
          texts.emplace(t, chat_variables(all, add_generation_prompt), "messages");
          for (size_t n = 0; n <= all.size(); n += step) {
            const std::string want = tried([&] {
              return t.render(
                  chat_variables(Json(all.begin(), all.begin() + static_cast<ptrdiff_t>(n)), add_generation_prompt));
            });
            const std::string got = tried([&] {
              const jinja::Beginnings::Text text = texts->first(n);
              return texts->lead().substr(0, text.shared) + text.rest;
            });
            EXPECT_EQ(got, want) << n;
            if (want.starts_with("error")) break;
          }
        }
  }
}

TEST(Beginnings, take_work_in_proportion_to_the_list) {
  auto all = [](const char* source, size_t n, int64_t most = jinja::Beginnings::kWork) {
    const Template t(source);
    jinja::Beginnings texts(t, chat_variables(chat_of(n), false), "messages", most);
    for (size_t i = 1; i <= n; ++i) texts.first(i);
    return texts.work();
  };
  for (size_t i : {0, 1, 2, 3, 4, 5}) EXPECT_LT(all(kLoops[i], 800), 5 * all(kLoops[i], 200)) << kLoops[i];
  EXPECT_GT(all(kLoops[7], 200), 3 * all(kLoops[7], 100));  // looks at the end first: each is rendered anew
  try {
    all(kLoops[7], 400, 5'000'000);
    FAIL();
  } catch (const jinja::TemplateLimit& e) {
    EXPECT_NE(std::string(e.what()).find("too many steps"), std::string::npos) << e.what();
  }
}

TEST(Jinja, nothing_is_reached_from_within) {
  for (const char* source : {"{% include 'a' %}", "{% import 'a' as b %}", "{% extends 'a' %}", "{% autoescape true %}"})
    EXPECT_NE(error_of(source).find("unknown block"), std::string::npos) << source;
  EXPECT_EQ(error_of("{{ ''.__class__ }}"), "rendered: ");
}

TEST(ChatTemplates, of_a_folder) {
  Folder f;
  f.write("a/tokenizer_config.json", R"({"eos_token": {"content": "</s>"}, "chat_template": [{"name": "tool", "template": "no"},
      {"name": "default", "template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ add_generation_prompt }}"}]})");
  f.write("a/special_tokens_map.json", R"({"bos_token": "<s>", "eos_token": "<old>"})");
  Json chat{{"messages", {{{"role", "user"}, {"content", "hi"}}}}};
  EXPECT_EQ(load_chat_template(f / "a")->render(chat), "<s>hi<old>False") << "as Transformers 5: the map wins";
  f.write("a/special_tokens_map.json", R"({"bos_token": "<s>", "eos_token": null})");
  EXPECT_EQ(load_chat_template(f / "a")->render(chat), "<s>hiFalse");
  f.write("q/tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": {}, "pad_token": null})");
  f.write("q/special_tokens_map.json", R"({"bos_token": "<s>"})");
  f.write("q/chat_template.jinja", "{{ bos_token }}{{ eos_token }}{{ pad_token }}");
  EXPECT_EQ(load_chat_template(f / "q")->render(chat), "<|endoftext|>") << "of the class; the map is older than the decoder";
  f.write("a/chat_template.jinja", "{{ messages[0].role }}\n");
  EXPECT_EQ(load_chat_template(f / "a")->render(chat), "user");
  f.write("b/tokenizer_config.json", "{}");
  EXPECT_EQ(load_chat_template(f / "b"), nullptr);
  f.write("b/chat_template.jinja", "{{ oops");
  EXPECT_USER_ERROR(load_chat_template(f / "b"), "line 1: a tag does not end");
}

// As PreTrainedTokenizerBase.get_chat_template of Transformers.
TEST(Jinja, of_several_templates_one_is_for_tools) {
  Folder f;
  f.write("a/tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "r"},
      {"name": "tool_use", "template": "with {{ tools[0] }} of {{ eos_token }}"}, {"name": "default", "template": "plain"}], "eos_token": "</s>"})");
  const Json plain{{"messages", Json::array()}}, none{{"messages", Json::array()}, {"tools", nullptr}},
      tools{{"messages", Json::array()}, {"tools", {"t"}}};
  auto rendered = [&](const Json& conversation) { return load_chat_template(f / "a")->render(conversation); };
  EXPECT_EQ(rendered(plain), "plain");
  EXPECT_EQ(rendered(none), "plain");
  EXPECT_EQ(rendered(tools), "with t of </s>");
  const auto listed = load_chat_template(f / "a")->fingerprint();
  f.write("a/additional_chat_templates/tool_use.jinja", "file {{ tools[0] }}");
  EXPECT_EQ(rendered(tools), "file t") << "of files alone";
  f.write("a/chat_template.jinja", "plain");
  EXPECT_EQ(rendered(plain), "plain");
  EXPECT_EQ(rendered(tools), "file t");
  EXPECT_NE(load_chat_template(f / "a")->fingerprint(), listed);
  f.write("b/tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "x"}]})");
  EXPECT_EQ(load_chat_template(f / "b")->render(tools), "x") << "the one there is";
  try {
    ADD_FAILURE() << load_chat_template(f / "b")->render(none);
  } catch (const TemplateError& e) {
    EXPECT_NE(std::string(e.what()).find("none is named 'default'"), std::string::npos) << e.what();
  }
  f.write("b/tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "x"}]})");
  EXPECT_USER_ERROR(load_chat_template(f / "b"), "tokenizer_config.json: chat_template.rag");
  f.write("b/tokenizer_config.json",
          R"({"chat_template": [{"name": "default", "template": "x"}, {"name": "default", "template": "y"}]})");
  EXPECT_USER_ERROR(load_chat_template(f / "b"), "unlike names");
  f.write("b/tokenizer_config.json",
          R"({"chat_template": [{"name": "default", "template": "x"}, {"name": "tool_use", "template": "{{ x"}]})");
  EXPECT_USER_ERROR(load_chat_template(f / "b"), "chat_template.tool_use");
}

}  // namespace test_jinja
}  // namespace ravine
