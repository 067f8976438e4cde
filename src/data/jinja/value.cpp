#include "data/jinja/value.h"

#include <algorithm>
#include <cmath>

#include "data/tokenizers/unicode.h"

namespace ravine::jinja {

namespace {
constexpr int kDeepestValue = 64;

void check_depth(int depth) {
  if (depth > kDeepestValue) raise("values are nested too deeply");
}

std::string float_text(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d > 0 ? "inf" : "-inf";
  std::string s = fmt::format("{}", d);
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return s;
}

}  // namespace

Value Arguments::get(size_t at, std::string_view name, Value fallback) const {
  if (at < args.size()) return args[at];
  for (const auto& [k, v] : named)
    if (k == name) return v;
  return fallback;
}

bool Arguments::has(size_t at, std::string_view name) const {
  return at < args.size() || std::any_of(named.begin(), named.end(), [&](const auto& n) { return n.first == name; });
}

void Arguments::at_most(std::string_view function, size_t n) const {
  if (args.size() > n) raise("{}() takes at most {} arguments, got {}", function, n, args.size());
}

const char* type_name(const Value& v) {
  if (v.is_undefined()) return "undefined";
  if (v.is_none()) return "None";
  if (v.is_bool()) return "bool";
  if (v.is_int()) return "int";
  if (v.is_float()) return "float";
  if (v.is_string()) return "str";
  if (v.is_list()) return v.is_tuple() ? "tuple" : "list";
  if (v.is_dict()) return "dict";
  if (v.is_namespace()) return "namespace";
  return "function";
}

bool truth(const Value& v) {
  if (v.is_undefined() || v.is_none()) return false;
  if (v.is_bool()) return v.boolean();
  if (v.is_int()) return v.integer() != 0;
  if (v.is_float()) return v.number() != 0;
  if (v.is_string()) return !v.string().empty();
  if (v.is_list()) return !v.list().empty();
  if (v.is_dict()) return !v.dict().empty();
  return true;
}

bool equal(const Value& a, const Value& b, int depth) {
  check_depth(depth);
  if (a.is_float() || b.is_float()) return a.is_number() && b.is_number() && a.number() == b.number();
  if (a.is_number() && b.is_number()) return a.integer() == b.integer();
  if (a.is_string() && b.is_string()) return a.string() == b.string();
  if (a.is_list() && b.is_list()) {
    if (a.is_tuple() != b.is_tuple() || a.list().size() != b.list().size()) return false;
    for (size_t i = 0; i < a.list().size(); ++i)
      if (!equal(a.list()[i], b.list()[i], depth + 1)) return false;
    return true;
  }
  if (a.is_dict() && b.is_dict()) {
    if (a.dict().size() != b.dict().size()) return false;
    for (const auto& [k, v] : a.dict()) {
      const Value* other = lookup(b.dict(), k);
      if (!other || !equal(v, *other, depth + 1)) return false;
    }
    return true;
  }
  if (a.is_namespace() && b.is_namespace()) return a.space() == b.space();
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

bool less(const Value& a, const Value& b, int depth) {
  check_depth(depth);
  if (a.is_number() && b.is_number())
    return a.is_float() || b.is_float() ? a.number() < b.number() : a.integer() < b.integer();
  if (a.is_string() && b.is_string()) return a.string() < b.string();
  if (a.is_list() && b.is_list()) {
    for (size_t i = 0; i < std::min(a.list().size(), b.list().size()); ++i)
      if (!equal(a.list()[i], b.list()[i])) return less(a.list()[i], b.list()[i], depth + 1);
    return a.list().size() < b.list().size();
  }
  raise("'<' not supported between '{}' and '{}'", type_name(a), type_name(b));
}

bool contains(const Value& inside, const Value& what, Budget& budget) {
  if (inside.is_string()) {
    if (!what.is_string()) raise("'in <string>' requires string as left operand, not {}", type_name(what));
    budget.step(static_cast<int64_t>(inside.string().size() / 16));
    return inside.string().find(what.string()) != std::string::npos;
  }
  if (inside.is_list()) {
    budget.step(static_cast<int64_t>(inside.list().size()));
    return std::any_of(inside.list().begin(), inside.list().end(), [&](const Value& v) { return equal(v, what); });
  }
  if (inside.is_dict()) {
    budget.step(static_cast<int64_t>(inside.dict().size()));
    return lookup(inside.dict(), what) != nullptr;
  }
  if (inside.is_undefined()) return false;
  raise("argument of type '{}' is not iterable", type_name(inside));
}

std::string str(const Value& v, Budget& budget) {
  if (v.is_string()) return v.string();
  return repr(v, budget);
}

std::string repr(const Value& v, Budget& budget, int depth) {
  check_depth(depth);
  budget.step();
  if (v.is_undefined()) return depth ? "Undefined" : "";
  if (v.is_none()) return "None";
  if (v.is_bool()) return v.boolean() ? "True" : "False";
  if (v.is_int()) return std::to_string(v.integer());
  if (v.is_float()) return float_text(v.number());
  std::string out;
  if (v.is_string()) {
    const std::string& s = v.string();
    char quote = s.find('\'') != std::string::npos && s.find('"') == std::string::npos ? '"' : '\'';
    out += quote;
    for (char c : s) {
      if (c == quote || c == '\\') {
        out += '\\';
        out += c;
      } else if (c == '\n') {
        out += "\\n";
      } else if (c == '\r') {
        out += "\\r";
      } else if (c == '\t') {
        out += "\\t";
      } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
      } else {
        out += c;
      }
    }
    out += quote;
  } else if (v.is_list()) {
    out += v.is_tuple() ? '(' : '[';
    for (size_t i = 0; i < v.list().size(); ++i) out += (i ? ", " : "") + repr(v.list()[i], budget, depth + 1);
    if (v.is_tuple() && v.list().size() == 1) out += ',';
    out += v.is_tuple() ? ')' : ']';
  } else if (v.is_dict()) {
    out += '{';
    for (const auto& [k, x] : v.dict()) {
      if (out.size() > 1) out += ", ";
      out += repr(k, budget, depth + 1) + ": " + repr(x, budget, depth + 1);
    }
    out += '}';
  } else {
    out = v.is_namespace() ? "<Namespace>" : "<function>";
  }
  budget.bytes(out.size());
  return out;
}

namespace {

std::string json_string(const std::string& s, bool ascii) { return Json(s).dump(-1, ' ', ascii); }

std::string json_key(const Value& k, bool ascii, Budget& budget) {
  if (k.is_string()) return json_string(k.string(), ascii);
  if (k.is_none()) return "\"null\"";
  if (k.is_bool()) return k.boolean() ? "\"true\"" : "\"false\"";
  return "\"" + repr(k, budget) + "\"";
}

}  // namespace

std::string to_json(const Value& v, int indent, bool ascii, bool sort, Budget& budget, int depth) {
  check_depth(depth);
  budget.step();
  if (v.is_none()) return "null";
  if (v.is_bool()) return v.boolean() ? "true" : "false";
  if (v.is_int()) return std::to_string(v.integer());
  if (v.is_float()) {
    if (std::isnan(v.number())) return "NaN";
    if (std::isinf(v.number())) return v.number() > 0 ? "Infinity" : "-Infinity";
    return float_text(v.number());
  }
  std::string out;
  std::string line = indent >= 0 ? "\n" + std::string(static_cast<size_t>(indent) * static_cast<size_t>(depth + 1), ' ') : "";
  std::string last = indent >= 0 ? "\n" + std::string(static_cast<size_t>(indent) * static_cast<size_t>(depth), ' ') : "";
  std::string_view comma = indent >= 0 ? "," : ", ";
  if (v.is_string()) {
    out = json_string(v.string(), ascii);
  } else if (v.is_list()) {
    if (v.list().empty()) return "[]";
    out = "[";
    for (const Value& x : v.list()) {
      if (out.size() > 1) out += comma;
      out += line + to_json(x, indent, ascii, sort, budget, depth + 1);
    }
    out += last + "]";
  } else if (v.is_dict()) {
    if (v.dict().empty()) return "{}";
    Dict d = v.dict();
    if (sort) std::stable_sort(d.begin(), d.end(), [](const auto& a, const auto& b) { return less(a.first, b.first); });
    out = "{";
    for (const auto& [k, x] : d) {
      if (out.size() > 1) out += comma;
      out += line + json_key(k, ascii, budget) + ": " + to_json(x, indent, ascii, sort, budget, depth + 1);
    }
    out += last + "}";
  } else {
    raise("Object of type {} is not JSON serializable", type_name(v));
  }
  budget.bytes(out.size());
  return out;
}

Value from_json(const Json& j, int depth) {
  check_depth(depth);
  if (j.is_null()) return None{};
  if (j.is_boolean()) return j.get<bool>();
  if (j.is_number_unsigned() && j.get<uint64_t>() > INT64_MAX) return static_cast<double>(j.get<uint64_t>());
  if (j.is_number_integer()) return j.get<int64_t>();
  if (j.is_number_float()) return j.get<double>();
  if (j.is_string()) return j.get<std::string>();
  if (j.is_array()) {
    List l;
    for (const auto& e : j) l.push_back(from_json(e, depth + 1));
    return l;
  }
  Dict d;
  for (const auto& [k, e] : j.items()) d.emplace_back(Value(k), from_json(e, depth + 1));
  return d;
}

const Value* lookup(const Dict& d, const Value& key) {
  for (const auto& [k, v] : d)
    if (equal(k, key)) return &v;
  return nullptr;
}

int64_t length(const Value& v) {
  if (v.is_string()) {
    int64_t n = 0;
    for (char c : v.string()) n += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    return n;
  }
  if (v.is_list()) return static_cast<int64_t>(v.list().size());
  if (v.is_dict()) return static_cast<int64_t>(v.dict().size());
  if (v.is_undefined()) return 0;
  raise("object of type '{}' has no len()", type_name(v));
}

List items(const Value& v, Budget& budget) {
  if (v.is_list()) return budget.step(static_cast<int64_t>(v.list().size())), v.list();
  List l;
  if (v.is_string()) {
    for (char32_t c : chars(v.string())) l.emplace_back(utf8(std::u32string_view(&c, 1)));
  } else if (v.is_dict()) {
    for (const auto& [k, x] : v.dict()) l.push_back(k);
  } else if (!v.is_undefined()) {
    raise("'{}' object is not iterable", type_name(v));
  }
  budget.step(static_cast<int64_t>(l.size()));
  budget.bytes(l.size() * sizeof(Value));
  return l;
}

int64_t add_checked(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) raise("a number is too large");
  return r;
}

std::u32string chars(std::string_view s) {
  std::u32string out;
  for (size_t at = 0; at < s.size();) out += next_char(s, at);
  return out;
}

std::string utf8(std::u32string_view s) {
  std::string out;
  for (char32_t c : s) append_utf8(out, c);
  return out;
}

}  // namespace ravine::jinja
