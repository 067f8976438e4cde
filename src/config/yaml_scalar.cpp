#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "config/yaml.h"

namespace ravine {
namespace {

bool any_of(std::string_view text, std::initializer_list<std::string_view> words) {
  for (std::string_view w : words)
    if (text == w) return true;
  return false;
}

bool digit(char c) { return c >= '0' && c <= '9'; }

// Returns the length of the leading run of digits of `base` and underscores.
size_t run_of(std::string_view s, int base) {
  size_t n = 0;
  for (; n < s.size(); ++n) {
    char c = s[n], lower = static_cast<char>(c | 0x20);
    bool ok = c == '_' || (c >= '0' && c < '0' + std::min(base, 10)) || (base == 16 && lower >= 'a' && lower <= 'f');
    if (!ok) break;
  }
  return n;
}

std::string without_underscores(std::string_view s) {
  std::string r;
  for (char c : s)
    if (c != '_') r += c;
  return r;
}

bool set_real(YamlNode& node, double x) {
  node.kind = YamlNode::Kind::real;
  node.real = x;
  return true;
}

bool set_integer(YamlNode& node, bool negative, std::string_view digits, int base) {
  std::string text = (negative ? "-" : "") + without_underscores(digits);
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) return false;
  if (error == std::errc::result_out_of_range) {
    double x = 0;
    for (char c : text)
      if (c != '-') x = x * base + (digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
    return set_real(node, negative ? -x : x);
  }
  node.kind = YamlNode::Kind::integer;
  node.integer = value;
  node.real = static_cast<double>(value);
  return true;
}

// Parses numbers of base 60 (1:30, 1:30.5): [0-9][0-9_]*(:[0-5]?[0-9])+ with a fraction for floats.
bool sexagesimal(YamlNode& node, bool negative, std::string_view s) {
  size_t dot = s.find('.');
  std::string_view whole = s.substr(0, dot);
  if (dot == std::string_view::npos && whole[0] == '0') return false;
  double total = 0;
  bool first = true;
  for (const std::string& part : split(whole, ':')) {
    if (part.empty() || !digit(part[0]) || run_of(part, 10) != part.size()) return false;
    if (!first && (part.size() > 2 || part.back() == '_' || (part.size() == 2 && part[0] > '5'))) return false;
    total = total * 60 + std::strtod(without_underscores(part).c_str(), nullptr);
    first = false;
  }
  if (dot != std::string_view::npos) {
    std::string_view fraction = s.substr(dot + 1);
    if (run_of(fraction, 10) != fraction.size()) return false;
    total += std::strtod(("0." + without_underscores(fraction)).c_str(), nullptr);
    return set_real(node, negative ? -total : total);
  }
  if (total > 0x1p53) return set_real(node, negative ? -total : total);
  node.kind = YamlNode::Kind::integer;
  node.integer = static_cast<int64_t>(negative ? -total : total);
  node.real = static_cast<double>(node.integer);
  return true;
}

// Parses [0-9][0-9_]*(.[0-9_]*)? or .[0-9][0-9_]*, then an exponent; a dot or an exponent is required.
bool decimal(YamlNode& node, bool negative, std::string_view s) {
  size_t i = run_of(s, 10);
  if (i && !digit(s[0])) return false;
  bool dot = i < s.size() && s[i] == '.';
  if (dot) {
    size_t n = run_of(s.substr(i + 1), 10);
    if (i == 0 && (n == 0 || !digit(s[1]))) return false;
    i += 1 + n;
  }
  if (i == 0) return false;
  bool exponent = i < s.size() && (s[i] | 0x20) == 'e';
  if (exponent) {
    ++i;
    if (i < s.size() && (s[i] == '+' || s[i] == '-')) ++i;
    size_t from = i;
    while (i < s.size() && digit(s[i])) ++i;
    if (i == from) return false;
  }
  if (i != s.size() || !(dot || exponent)) return false;
  std::string text = without_underscores(s);
  double x = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
  if (error == std::errc::result_out_of_range) x = std::strtod(text.c_str(), nullptr);  // infinity or 0, as in Python
  return set_real(node, negative ? -x : x);
}

bool number(YamlNode& node, std::string_view s) {
  if (s.empty()) return false;
  bool negative = s[0] == '-';
  if (negative || s[0] == '+') s.remove_prefix(1);
  if (s.empty() || !(digit(s[0]) || s[0] == '.')) return false;
  if (any_of(s, {".inf", ".Inf", ".INF"})) {
    double inf = std::numeric_limits<double>::infinity();
    return set_real(node, negative ? -inf : inf);
  }
  if (node.text[0] == '.' && any_of(s, {".nan", ".NaN", ".NAN"}))
    return set_real(node, std::numeric_limits<double>::quiet_NaN());
  if (s.find(':') != std::string_view::npos) return sexagesimal(node, negative, s);
  if (s.starts_with("0b") && run_of(s.substr(2), 2) == s.size() - 2) return set_integer(node, negative, s.substr(2), 2);
  if (s.starts_with("0x") && run_of(s.substr(2), 16) == s.size() - 2) return set_integer(node, negative, s.substr(2), 16);
  if (s[0] == '0' && s.size() > 1 && run_of(s, 8) == s.size()) return set_integer(node, negative, s, 8);
  if ((s[0] != '0' || s.size() == 1) && run_of(s, 10) == s.size()) return set_integer(node, negative, s, 10);
  return decimal(node, negative, s);
}

// True for characters that libyaml refuses or folds, or that are invisible; they are written as escapes.
bool needs_escape(uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c <= 0xa0) || c == 0x2028 || c == 0x2029 || c == 0xfeff || c == 0xfffe || c == 0xffff;
}

uint32_t next_code_point(std::string_view s, size_t& i) {
  unsigned char lead = static_cast<unsigned char>(s[i++]);
  if (lead < 0x80) return lead;
  int more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
  uint32_t c = lead & (0x3f >> more);
  for (int k = 0; k < more; ++k) c = c << 6 | (static_cast<unsigned char>(s[i++]) & 0x3f);
  return c;
}

}  // namespace

YamlNode resolve_scalar(std::string_view text) {
  YamlNode node;
  node.text = std::string(text);
  if (any_of(text, {"", "~", "null", "Null", "NULL"})) return node;
  bool yes = any_of(text, {"yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"});
  if (yes || any_of(text, {"no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})) {
    node.kind = YamlNode::Kind::boolean;
    node.boolean = yes;
  } else if (!number(node, node.text)) {
    node.kind = YamlNode::Kind::text;
  }
  return node;
}

std::string yaml_text(std::string_view text) {
  if (find_invalid_utf8(text) != std::string_view::npos)
    throw UserError("a value that is not UTF-8", "config.yaml", "YAML holds UTF-8 only",
                    "rename the file or re-encode the text");
  bool plain = !text.empty() && text != "<<" && text != "..." && text[0] != '-' && text[0] != '=';
  for (char c : text) plain = plain && (std::isalnum(static_cast<unsigned char>(c)) || std::string_view("_./-+=").find(c) < 6);
  if (plain && resolve_scalar(text).kind == YamlNode::Kind::text && !(digit(text[0]) && text.find('-') == 4))
    return std::string(text);
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
    size_t from = i;
    uint32_t c = next_code_point(text, i);
    if (c == '"' || c == '\\')
      out += fmt::format("\\{}", static_cast<char>(c));
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (needs_escape(c))
      out += c < 0x100 ? fmt::format("\\x{:02X}", c) : fmt::format("\\u{:04X}", c);
    else
      out += text.substr(from, i - from);
  }
  return out + "\"";
}

std::string yaml_real(double x) {
  if (std::isnan(x)) return ".nan";
  if (std::isinf(x)) return x < 0 ? "-.inf" : ".inf";
  std::string s = fmt::format("{}", x);
  size_t e = s.find('e');
  if (s.find('.') == std::string::npos) s.insert(e == std::string::npos ? s.size() : e, ".0");
  return s;
}

}  // namespace ravine
