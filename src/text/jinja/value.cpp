#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/cut_text.h"
#include "text/unicode/unicode.h"

namespace ravine::jinja {

namespace {

constexpr size_t kShown = 80;  // bytes of a template's text that an error shows

std::string float_text(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d > 0 ? "inf" : "-inf";
  std::string s = fmt::format("{}", d);
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return s;
}

int deepest(const List& l) {
  int d = 0;
  for (const Value& v : l) d = std::max(d, v.depth());
  return d;
}

}  // namespace

std::string shown(std::string_view text) {
  const std::string_view begin = cut_text(text, kShown);
  return std::string(begin) + (begin.size() < text.size() ? ".." : "");
}

void Value::hold(int depth) {
  if (depth >= kDeepestValue)
    beyond("values are nested too deeply (more than {} lists and dicts within each other)", kDeepestValue);
  depth_ = static_cast<uint8_t>(depth + 1);
}

Value::Value(List l, bool tuple) : tuple_(tuple) {
  hold(deepest(l));
  v_ = std::make_shared<const List>(std::move(l));
}

Value::Value(Dict d) {
  int deep = 0;
  for (const auto& [k, v] : d) deep = std::max({deep, k.depth(), v.depth()});
  hold(deep);
  v_ = std::make_shared<const Dict>(std::move(d));
}

Value::Value(Function f, const Value& of) {
  hold(of.depth());
  v_ = std::make_shared<const Function>(std::move(f));
}

bool Value::same_object(const Value& other) const {
  if (is_open() || other.is_open()) return is_open() && other.is_open() && &open() == &other.open();
  if (is_list() && other.is_list()) return &list() == &other.list();
  return is_dict() && other.is_dict() && &dict() == &other.dict();
}

const Value& OpenList::at(size_t i) const {
  reach->upto(offset + i + 1);
  return (*all)[offset + i];
}

const List& OpenList::list() const {
  reach->whole();
  if (offset == 0 && reach->length == all->size()) return *all;
  if (part_length_ != reach->length) {
    part_.assign(all->begin() + static_cast<ptrdiff_t>(std::min(offset, all->size())),
                 all->begin() + static_cast<ptrdiff_t>(std::min(offset + size(), all->size())));
    part_length_ = reach->length;
  }
  return part_;
}

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
  if (v.is_open() && v.open().size() > 0) return v.open().at(0), true;
  if (v.is_list()) return !v.list().empty();
  if (v.is_dict()) return !v.dict().empty();
  return true;
}

// Elements that are the same object are equal, as in Python.
bool equal(const Value& a, const Value& b, Budget& budget) {
  budget.values(1);
  if (a.is_float() || b.is_float()) return a.is_number() && b.is_number() && a.number() == b.number();
  if (a.is_number() && b.is_number()) return a.integer() == b.integer();
  if (a.is_string() && b.is_string()) {
    if (a.string().size() != b.string().size()) return false;
    budget.read(a.string().size());
    return a.string() == b.string();
  }
  if (a.same_object(b)) return true;
  if (a.is_list() && b.is_list()) {
    const List &x = a.list(), &y = b.list();
    if (a.is_tuple() != b.is_tuple() || x.size() != y.size()) return false;
    for (size_t i = 0; i < x.size(); ++i)
      if (!equal(x[i], y[i], budget)) return false;
    return true;
  }
  if (a.is_dict() && b.is_dict()) {
    if (a.dict().size() != b.dict().size()) return false;
    for (const auto& [k, v] : a.dict()) {
      const Value* other = lookup(b.dict(), k, budget);
      if (!other || !equal(v, *other, budget)) return false;
    }
    return true;
  }
  if (a.is_namespace() && b.is_namespace()) return a.space() == b.space();
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

bool less(const Value& a, const Value& b, Budget& budget) {
  budget.values(1);
  if (a.is_number() && b.is_number()) return a.is_float() || b.is_float() ? a.number() < b.number() : a.integer() < b.integer();
  if (a.is_string() && b.is_string()) {
    budget.read(std::min(a.string().size(), b.string().size()));
    return a.string() < b.string();
  }
  if (a.is_list() && b.is_list()) {
    const List &x = a.list(), &y = b.list();
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i)
      if (!equal(x[i], y[i], budget)) return less(x[i], y[i], budget);
    return x.size() < y.size();
  }
  raise("'<' not supported between '{}' and '{}'", type_name(a), type_name(b));
}

bool contains(const Value& inside, const Value& what, Budget& budget) {
  if (inside.is_string()) {
    if (!what.is_string()) raise("'in <string>' requires string as left operand, not {}", type_name(what));
    return find_in(inside.string(), what.string(), 0, budget) != std::string::npos;
  }
  if (inside.is_list())
    return std::any_of(inside.list().begin(), inside.list().end(), [&](const Value& v) { return equal(v, what, budget); });
  if (inside.is_dict()) return lookup(inside.dict(), what, budget) != nullptr;
  if (inside.is_undefined()) return false;
  raise("argument of type '{}' is not iterable", type_name(inside));
}

void append(std::string& out, std::string_view text, Budget& budget) {
  if (text.size() > Budget::kLongestText - std::min(out.size(), Budget::kLongestText))
    beyond("the template makes too much text (more than {} MiB)", Budget::kLongestText >> 20);
  budget.read(text.size());
  budget.bytes(text.size());
  out += text;
}

void append_str(std::string& out, const Value& v, Budget& budget) {
  if (v.is_string())
    append(out, v.string(), budget);
  else
    append_repr(out, v, budget);
}

std::string str(const Value& v, Budget& budget) {
  std::string out;
  append_str(out, v, budget);
  return out;
}

void append_repr(std::string& out, const Value& v, Budget& budget, bool outermost) {
  budget.values(4);
  if (v.is_undefined()) return append(out, outermost ? "" : "Undefined", budget);
  if (v.is_none()) return append(out, "None", budget);
  if (v.is_bool()) return append(out, v.boolean() ? "True" : "False", budget);
  if (v.is_int()) return append(out, std::to_string(v.integer()), budget);
  if (v.is_float()) return append(out, float_text(v.number()), budget);
  if (v.is_string()) {
    const std::string& s = v.string();
    budget.chars(2 * s.size());
    char quote = s.find('\'') != std::string::npos && s.find('"') == std::string::npos ? '"' : '\'';
    std::string text(1, quote);
    for (size_t at = 0; at < s.size();) {
      const size_t from = at;
      const char32_t c = next_char(s, at);
      if (c == static_cast<char32_t>(quote) || c == '\\') {
        text += '\\';
        text += static_cast<char>(c);
      } else if (c == '\n') {
        text += "\\n";
      } else if (c == '\r') {
        text += "\\r";
      } else if (c == '\t') {
        text += "\\t";
      } else if (c != ' ' && (is_other(c) || is_unicode_space(c))) {  // not printable
        const auto code = static_cast<uint32_t>(c);
        text += code < 0x100     ? fmt::format("\\x{:02x}", code)
                : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                                 : fmt::format("\\U{:08x}", code);
      } else {
        text += std::string_view(s).substr(from, at - from);
      }
    }
    text += quote;
    append(out, v.is_markup() ? "Markup(" + text + ")" : text, budget);
  } else if (v.is_range()) {
    raise("a range is written as a list: range(..)|list");
  } else if (v.is_list()) {
    append(out, v.is_tuple() ? "(" : "[", budget);
    bool first = true;
    for (const Value& x : v.list()) {
      if (!std::exchange(first, false)) append(out, ", ", budget);
      append_repr(out, x, budget, false);
    }
    if (v.is_tuple() && v.list().size() == 1) append(out, ",", budget);
    append(out, v.is_tuple() ? ")" : "]", budget);
  } else if (v.is_dict()) {
    append(out, "{", budget);
    bool first = true;
    for (const auto& [k, x] : v.dict()) {
      if (!std::exchange(first, false)) append(out, ", ", budget);
      append_repr(out, k, budget, false);
      append(out, ": ", budget);
      append_repr(out, x, budget, false);
    }
    append(out, "}", budget);
  } else {
    append(out, v.is_namespace() ? "<Namespace>" : "<function>", budget);
  }
}

namespace {

// Writes JSON like Python's json.dumps; with an indent on several lines.
class JsonText {
 public:
  JsonText(const JsonStyle& style, Budget& budget) : style_(style), budget_(budget) {}

  void value(const Value& v, size_t depth) {
    budget_.values(4);
    if (v.is_none()) return add("null");
    if (v.is_bool()) return add(v.boolean() ? "true" : "false");
    if (v.is_int()) return add(std::to_string(v.integer()));
    if (v.is_float()) {
      if (std::isnan(v.number())) return add("NaN");
      if (std::isinf(v.number())) return add(v.number() > 0 ? "Infinity" : "-Infinity");
      return add(float_text(v.number()));
    }
    if (v.is_string()) return text(v.string());
    if (v.is_range()) raise("a range is written as a list: range(..)|list");
    if (v.is_list()) {
      if (v.list().empty()) return add("[]");
      add("[");
      for (size_t i = 0; i < v.list().size(); ++i) {
        next(i, depth + 1);
        value(v.list()[i], depth + 1);
      }
      line(depth);
      return add("]");
    }
    if (!v.is_dict()) raise("Object of type {} is not JSON serializable", type_name(v));
    if (v.dict().empty()) return add("{}");
    std::vector<const std::pair<Value, Value>*> order;
    budget_.list(v.dict().size());
    for (const auto& e : v.dict()) order.push_back(&e);
    if (style_.sort)
      std::stable_sort(order.begin(), order.end(),
                       [&](const auto* a, const auto* b) { return less(a->first, b->first, budget_); });
    add("{");
    for (size_t i = 0; i < order.size(); ++i) {
      next(i, depth + 1);
      key(order[i]->first);
      add(style_.colon);
      value(order[i]->second, depth + 1);
    }
    line(depth);
    add("}");
  }
  std::string out;

 private:
  void add(std::string_view s) { append(out, s, budget_); }
  void line(size_t depth) {
    if (!style_.indent) return;
    add("\n");
    for (size_t i = 0; i < depth; ++i) add(*style_.indent);
  }
  void next(size_t i, size_t depth) {
    if (i) add(style_.comma);
    line(depth);
  }
  void text(const std::string& s) {
    budget_.chars(4 * s.size());
    budget_.bytes(s.size());
    add(Json(s).dump(-1, ' ', style_.ascii, Json::error_handler_t::replace));
  }
  void key(const Value& k) {
    if (k.is_string()) return text(k.string());
    if (k.is_none()) return add("\"null\"");
    if (k.is_bool()) return add(k.boolean() ? "\"true\"" : "\"false\"");
    add("\"");
    append_repr(out, k, budget_);
    add("\"");
  }
  const JsonStyle& style_;
  Budget& budget_;
};

}  // namespace

std::string to_json(const Value& v, const JsonStyle& style, Budget& budget) {
  JsonText text(style, budget);
  text.value(v, 0);
  return std::move(text.out);
}

Value from_json(const Json& j) {
  if (j.is_null()) return None{};
  if (j.is_boolean()) return j.get<bool>();
  if (j.is_number_unsigned() && j.get<uint64_t>() > INT64_MAX) raise("a whole number beyond 64 bits");
  if (j.is_number_integer()) return j.get<int64_t>();
  if (j.is_number_float()) return j.get<double>();
  if (j.is_string()) return j.get<std::string>();
  if (j.is_array()) {
    List l;
    l.reserve(j.size());
    for (const auto& e : j) l.push_back(from_json(e));
    return l;
  }
  Dict d;
  d.reserve(j.size());
  for (const auto& [k, e] : j.items()) d.emplace_back(Value(k), from_json(e));
  return d;
}

const Value* lookup(const Dict& d, const Value& key, Budget& budget) {
  if (key.is_string()) return lookup(d, std::string_view(key.string()), budget);
  for (const auto& [k, v] : d)
    if (equal(k, key, budget)) return &v;
  return nullptr;
}

const Value* lookup(const Dict& d, std::string_view key, Budget& budget) {
  budget.work(d.size());
  for (const auto& [k, v] : d) {
    if (!k.is_string() || k.string().size() != key.size()) continue;
    budget.read(key.size());
    if (k.string() == key) return &v;
  }
  return nullptr;
}

int64_t length(const Value& v, Budget& budget) {
  if (v.is_string()) return count_chars(v.string(), budget);
  if (v.is_open()) {
    v.open().reach->whole();
    return static_cast<int64_t>(v.open().size());
  }
  if (v.is_list()) return static_cast<int64_t>(v.list().size());
  if (v.is_dict()) return static_cast<int64_t>(v.dict().size());
  if (v.is_undefined()) return 0;
  raise("object of type '{}' has no len()", type_name(v));
}

Value items(const Value& v, Budget& budget) {
  if (v.is_open()) return v;
  if (v.is_list()) return v;
  List l;
  if (v.is_string()) {
    const std::string& s = v.string();
    budget.chars(s.size());
    for (size_t at = 0; at < s.size();) {
      size_t begin = at;
      next_char(s, at);
      budget.work(int64_t{4});
      budget.bytes(sizeof(Value) + Budget::kTextBytes);
      l.emplace_back(std::string_view(s).substr(begin, at - begin));
    }
  } else if (v.is_dict()) {
    budget.list(v.dict().size());
    for (const auto& [k, x] : v.dict()) l.push_back(k);
  } else if (!v.is_undefined()) {
    raise("'{}' object is not iterable", type_name(v));
  }
  return l;
}

size_t find_in(std::string_view text, std::string_view what, size_t from, Budget& budget) {
  if (from > text.size()) return std::string_view::npos;
  const void* found = memmem(text.data() + from, text.size() - from, what.data(), what.size());
  size_t at = found ? static_cast<size_t>(static_cast<const char*>(found) - text.data()) : std::string_view::npos;
  budget.work(((found ? at + what.size() : text.size()) - from) / (what.size() > 8 ? 2 : 4) + what.size() / 2);
  return at;
}

size_t find_last(std::string_view text, std::string_view what, size_t end, Budget& budget) {
  text = text.substr(0, end);
  budget.chars(text.size() + what.size());
  budget.bytes(text.size() + what.size());
  const std::string t(text.rbegin(), text.rend()), w(what.rbegin(), what.rend());
  size_t at = find_in(t, w, 0, budget);
  return at == std::string::npos ? at : text.size() - at - what.size();
}

int64_t add_checked(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) raise("a number is too large");
  return r;
}

int64_t count_chars(std::string_view s, Budget& budget) {
  budget.read(4 * s.size());
  return std::count_if(s.begin(), s.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

std::string escaped(std::string_view s, Budget& budget) {
  budget.chars(2 * s.size());
  budget.bytes(4 * s.size());
  std::string out;
  for (char c : s) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&#34;";
    else if (c == '\'')
      out += "&#39;";
    else
      out += c;
  }
  return out;
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
