// A template gives a TemplateError or a text, within bounds. The template is any bytes or, after a byte 0xff, made by a
// grammar from the bytes. The first messages have the same texts as in a rendering without the other messages.
#include <initializer_list>

#include "base/text.h"
#include "text/jinja/render.h"

using namespace ravine;

namespace {

// Makes templates that parse, with all statements. Random bytes are seldom a valid template.
class Grammar {
 public:
  Grammar(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  std::string run() {
    std::string out = "{% set n = namespace(x=1, y=[]) %}";
    while (size_ > 0 && out.size() < kLongest) statement(out, 0);
    return out;
  }

 private:
  static constexpr size_t kLongest = 400;
  size_t pick(size_t n) {
    if (size_ == 0) return 0;
    --size_;
    return *data_++ % n;
  }
  const char* one(std::initializer_list<const char*> of) { return of.begin()[pick(of.size())]; }
  void body(std::string& out, int depth) {
    for (size_t i = pick(3) + 1; i-- > 0;) statement(out, depth + 1);
  }
  void statement(std::string& out, int depth) {
    switch (depth > 5 ? pick(4) : pick(10)) {
      case 0:
        out += "{{ ", value(out, 0), out += " }}";
        break;
      case 1:
        out += "{% set n.x = ", value(out, 0), out += " %}";
        break;
      case 2:
        out += "{% set n.y = ", value(out, 0), out += " %}";
        break;
      case 3:
        out += one({"a", "{{ loop.last }}", "{{ loop.nextitem }}", "{{ messages[-1].role }}", "{{ loop.changed(n.x) }}",
                    "{{ messages|length }}", "{{ m.content }}", "{{ f(n.x) }}"});
        break;
      case 4:
        out += "{% for i in ", value(out, 0), out += " %}", body(out, depth), out += "{% endfor %}";
        break;
      case 5:
        out += "{% for m in messages", out += one({"", "[1:]", "[::-1]", "[:1]"}), out += " %}", body(out, depth),
            out += one({"", "{% break %}", "{% continue %}"}), out += "{% endfor %}";
        break;
      case 6:
        out += "{% if ", value(out, 0), out += " %}", body(out, depth), out += "{% endif %}";
        break;
      case 7:
        out += "{% for i in range(", out += one({"2", "9", "99", "9999"}), out += ") %}", body(out, depth),
            out += "{% endfor %}";
        break;
      case 8:
        out += "{% macro f(a) %}", body(out, depth), out += "{% endmacro %}";
        break;
      default:
        out += "{% set s %}", body(out, depth), out += "{% endset %}";
    }
  }
  void value(std::string& out, int depth) {
    if (out.size() > kLongest) depth = 9;
    switch (depth > 6 ? pick(4) : pick(12)) {
      case 0:
        out += one({"1", "0", "-1", "2.5", "none", "true", "'ab'", "'\xc3\xa9 x'", "99", "''"});
        break;
      case 1:
        out += one({"n.x", "n.y", "messages", "m", "i", "s", "loop.index", "n", "loop", "add_generation_prompt"});
        break;
      case 2:
        out += one({"f(n.y)", "range(9)", "n.x.items()", "messages[0]", "caller", "f"});
        break;
      case 3:
        out += one({"[]", "{}", "()"});
        break;
      case 4:
        out += "[", value(out, depth + 1), out += ", ", value(out, depth + 1), out += "]";
        break;
      case 5:
        out += "{'a': ", value(out, depth + 1), out += "}";
        break;
      case 6:
        out += "(", value(out, depth + 1), out += ")",
            out += one({".get", ".upper()", ".split('a')", "[0]", "[1:]", "[::-1]", ".rsplit('b')", ".strip()", ".find('b')",
                        ".items()", ".count(1)", ".rfind('a')"});
        break;
      case 7:
      case 8:
        out += "(", value(out, depth + 1),
            out +=
            one({" + ", " ~ ", " * ", " == ", " < ", " in ", " and ", " or ", " // ", " % ", " - ", " ** ", " != ", " >= "}),
            value(out, depth + 1), out += ")";
        break;
      default:
        out += "(", value(out, depth + 1), out += ")|";
        out += one({"sort",
                    "list",
                    "join(',')",
                    "string",
                    "tojson",
                    "length",
                    "unique",
                    "map('upper')",
                    "map('map', 'list')",
                    "reverse",
                    "first",
                    "last",
                    "sum",
                    "min",
                    "replace('a', 'bb')",
                    "indent",
                    "trim",
                    "title",
                    "select",
                    "batch(2)",
                    "dictsort",
                    "items",
                    "default(1)",
                    "tojson(indent=2)",
                    "center(20)",
                    "wordcount",
                    "e",
                    "int",
                    "abs",
                    "selectattr('role')",
                    "map(attribute='content')",
                    "sort(reverse=true)"});
    }
  }
  const uint8_t* data_;
  size_t size_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string source(reinterpret_cast<const char*>(data), size);
  if (size > 0 && data[0] == 0xff) source = Grammar(data + 1, size - 1).run();
  if (source.size() > 1 << 14 || find_invalid_utf8(source) != std::string_view::npos) return 0;
  static const Json variables = Json::parse(
      R"({"messages": [{"role": "user", "content": " Hi "}, {"role": "assistant", "content": "Yo", "n": [1, 2.5, null]}, {"role": "user", "content": "Why?"}],
      "bos_token": "<s>", "add_generation_prompt": true})");
  const int64_t work =
      jinja::Budget::kWork /
      (size % 64 == 63 ? 128 : 4096);  // a unit takes some microseconds with sanitizers; most inputs get little
  auto rendered = [&](const jinja::Template& t, const Json& of) {
    try {
      return "text " + t.render(of, nullptr, work);
    } catch (const jinja::TemplateLimit&) {
      return std::string("limit");
    } catch (const jinja::TemplateError&) {
      return std::string("error");
    }
  };
  try {
    const jinja::Template t(source);
    if (!rendered(t, variables).starts_with("text") || source.find("strftime_now") != std::string::npos || size % 8 > 0)
      return 0;
    jinja::Beginnings texts(t, variables, "messages", 4 * work);
    for (size_t n = 0; n <= 3; ++n) {
      Json first = variables;
      first["messages"] = Json(variables["messages"].begin(), variables["messages"].begin() + static_cast<ptrdiff_t>(n));
      const std::string want = rendered(t, first);
      if (want == "limit") return 0;
      std::string got = "error";
      try {
        const auto text = texts.first(n);
        got = "text " + texts.lead().substr(0, text.shared) + text.rest;
      } catch (const jinja::TemplateLimit&) {
        return 0;
      } catch (const jinja::TemplateError&) {
      }
      if (got != want) __builtin_trap();
      if (want == "error") return 0;
    }
  } catch (const jinja::TemplateError&) {
  }
  return 0;
}
