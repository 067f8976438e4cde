// Filters and tests (jinja2/filters.py, tests.py).
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "text/jinja/builtins.h"
#include "text/unicode/unicode.h"

namespace ravine::jinja {

namespace {

// Work of changing the case: characters beyond ASCII take a table of ICU.
void count_cases(std::string_view s, Budget& budget) {
  budget.chars(s.size() + 32 * static_cast<size_t>(std::count_if(s.begin(), s.end(),
                                                                 [](char c) { return static_cast<signed char>(c) < -64; })));
  budget.bytes(s.size());
}

std::string cased(std::string_view text, bool title, Budget& budget) {
  count_cases(text, budget);
  std::string out;
  bool begin = true;
  for (size_t at = 0; at < text.size();) {
    char32_t c = next_char(text, at);
    if (begin)
      append_upper(out, c);
    else
      append_lower(out, c);
    begin = title && (is_unicode_space(c) || std::u32string_view(U"-([{<").find(c) != std::u32string_view::npos);
  }
  return out;
}

std::string fold(std::string_view s, Budget& budget) {
  count_cases(s, budget);
  std::string out;
  for (size_t at = 0; at < s.size();) append_lower(out, next_char(s, at));
  return out;
}

// Of a number of a reasonable length: longer ones are no numbers.
std::string_view number_text(const Value& v, Budget& budget) {
  budget.chars(v.string().size());
  return strip_right(strip_left(v.string()));
}

// A number in Python's spelling, without '_' between its digits; false if it is none.
bool without_marks(std::string_view s, std::string& out) {
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] != '_') {
      out += s[i];
      continue;
    }
    if (i == 0 || i + 1 == s.size() || !std::isalnum(static_cast<unsigned char>(s[i - 1])) ||
        !std::isalnum(static_cast<unsigned char>(s[i + 1])))
      return false;
  }
  return true;
}

std::optional<double> real_of(std::string_view text) {
  std::string s;
  if (!without_marks(text, s)) return std::nullopt;
  std::string_view rest = s;
  if (rest.starts_with('+') && !rest.substr(1).starts_with('-')) rest.remove_prefix(1);
  double d = 0;
  auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), d);
  if (end != rest.data() + rest.size() || rest.find('(') != std::string_view::npos) return std::nullopt;
  if (error == std::errc::result_out_of_range) return std::strtod(std::string(rest).c_str(), nullptr);  // inf, or next to 0
  if (error != std::errc{}) return std::nullopt;
  return d;
}

// int(text, base).
std::optional<int64_t> whole_of(std::string_view text, int64_t base) {
  const bool minus = text.starts_with('-');
  if (minus || text.starts_with('+')) text.remove_prefix(1);
  if (text.size() > 1 && text[0] == '0') {
    const char kind = static_cast<char>(text[1] | 0x20);
    const int64_t of = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
    if (of && (base == of || base == 0)) {
      base = of;
      text.remove_prefix(2);
      if (text.starts_with('_')) text.remove_prefix(1);
    } else if (base == 0 && text.find_first_not_of("0_") != std::string_view::npos) {
      return std::nullopt;
    }
  }
  if (base == 0) base = 10;
  std::string s;
  if (!without_marks(text, s) || s.starts_with('-')) return std::nullopt;
  int64_t i = 0;
  s.insert(0, minus ? "-" : "");
  auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), i, static_cast<int>(base));
  if (error == std::errc::result_out_of_range && end == s.data() + s.size()) raise("int: a whole number beyond 64 bits");
  if (error != std::errc{} || end != s.data() + s.size()) return std::nullopt;
  return i;
}

Value whole(double d) {
  if (std::abs(d) >= 0x1p63) raise("int: a whole number beyond 64 bits");
  return static_cast<int64_t>(d);
}

Value to_int(const Value& v, const Value& fallback, const Value& base, Budget& budget) {
  if (v.is_float()) return std::isnan(v.number()) ? fallback : whole(v.number());
  if (v.is_number()) return v.integer();
  if (!v.is_string()) return fallback;
  if (!base.is_number() || base.is_float()) raise("the base of int must be a whole number");
  const std::string_view s = number_text(v, budget);
  if (const int64_t b = base.integer(); b == 0 || (b >= 2 && b <= 36))
    if (const auto i = whole_of(s, b)) return *i;
  if (const auto d = real_of(s); d && std::isfinite(*d)) return whole(*d);
  return fallback;
}

Value to_float(const Value& v, const Value& fallback, Budget& budget) {
  if (v.is_number()) return v.number();
  if (v.is_string())
    if (const auto d = real_of(number_text(v, budget))) return *d;
  return fallback;
}

Value rounded(const Value& v, const Value& precision, const Value& method) {
  if (!v.is_number() || !precision.is_number()) raise("round needs a number");
  const int64_t digits = std::clamp<int64_t>(precision.integer(), -308, 400);  // further is beyond all digits of a double
  const double scale = std::pow(10.0, static_cast<double>(digits)), x = v.number() * scale;
  std::string how = method.is_string() ? method.string() : "";
  if (how == "ceil") return std::ceil(x) / scale;
  if (how == "floor") return std::floor(x) / scale;
  if (how != "common") raise("method must be common, ceil or floor");
  if (v.is_int() && digits >= 0) return v;
  if (digits < 0 || !std::isfinite(x)) {
    const double tens = std::pow(10.0, static_cast<double>(-digits)),
                 r = digits < 0 ? std::nearbyint(v.number() / tens) * tens : v.number();
    return v.is_int() && std::abs(r) < 9e15 ? Value(static_cast<int64_t>(r)) : Value(r);
  }
  // Of the number itself, as Python rounds: its product with a power of ten may be a tie that it is not.
  const std::string text = fmt::format("{:.{}f}", v.number(), static_cast<int>(std::min<int64_t>(digits, 340)));
  double r = 0;
  std::from_chars(text.data(), text.data() + text.size(), r);
  return r;
}

}  // namespace

Value Builtins::by_path(const Value& of, const Value& path) {
  if (path.is_number()) return item(of, path);
  if (!path.is_string()) raise("an attribute must be a name");
  Value v = of;
  for (std::string_view rest = path.string(); !rest.empty();) {
    budget_.step();
    size_t dot = std::min(rest.find('.'), rest.size());
    std::string_view part = rest.substr(0, dot);
    int64_t i = 0;
    bool number = std::from_chars(part.data(), part.data() + part.size(), i).ptr == part.data() + part.size() && !part.empty();
    budget_.read(part.size());
    v = item(v, number ? Value(i) : Value(part));
    rest.remove_prefix(std::min(dot + 1, rest.size()));
  }
  return v;
}

List Builtins::sorted(const Value& v, bool reverse, bool fold_case, const Value& attribute) {
  const Value all = items(v, budget_);
  budget_.list(4 * all.list().size());
  std::vector<std::pair<Value, Value>> keyed;
  keyed.reserve(all.list().size());
  for (const Value& x : all.list()) {
    Value key = attribute.is_none() ? x : by_path(x, attribute);
    keyed.emplace_back(fold_case && key.is_string() ? made(fold(key.string(), budget_)) : key, x);
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    budget_.values(2);
    return reverse ? less(b.first, a.first, budget_) : less(a.first, b.first, budget_);
  });
  List l;
  l.reserve(keyed.size());
  for (auto& [key, x] : keyed) l.push_back(std::move(x));
  return l;
}

// select, reject, selectattr, rejectattr: args are the list, [the attribute,] the test's name and its arguments.
List Builtins::picked(Arguments& a, bool by_attribute, bool keep) {
  List out;
  size_t at = by_attribute ? 2 : 1;
  std::string name = a.args.size() > at ? str(a.args[at], budget_) : "";
  const Value given = a.get(0, "");
  if (!truth(given)) return out;  // none, 0 and false too
  const Value all = items(given, budget_);
  for (const Value& x : all.list()) {
    budget_.list(1);
    Value subject = by_attribute ? by_path(x, a.get(1, "attribute")) : x;
    bool good = truth(subject);
    if (!name.empty()) {
      budget_.list(a.args.size() + 2 * a.named.size());
      Arguments t{{subject}, a.named, a.budget};
      for (size_t k = at + 1; k < a.args.size(); ++k) t.args.push_back(a.args[k]);
      good = test(name, t);
    }
    if (good == keep) out.push_back(x);
  }
  return out;
}

// Groups of what has the same value under the attribute, in the order of that value.
Value Builtins::grouped(Arguments& a) {
  const Value path = a.get(1, "attribute"), fallback = a.get(2, "default", None{}), all = items(a.get(0, ""), budget_);
  const bool fold_case = !truth(a.get(3, "case_sensitive", false));
  auto key_of = [&](const Value& x) {
    const Value key = by_path(x, path);
    return key.is_undefined() && !fallback.is_none() ? fallback : key;
  };
  auto compared = [&](const Value& key) { return fold_case && key.is_string() ? made(fold(key.string(), budget_)) : key; };
  List keyed;  // of (compared, key, element), in order
  for (const Value& x : all.list()) {
    const Value key = key_of(x);
    keyed.push_back(made(List{compared(key), key, x}, true));
  }
  keyed = sorted(Value(std::move(keyed)), false, false, Value(int64_t{0}));
  List out;
  for (size_t i = 0; i < keyed.size();) {
    List members;
    const Value first = keyed[i];
    for (; i < keyed.size() && equal(first.list()[0], keyed[i].list()[0], budget_); ++i) members.push_back(keyed[i].list()[2]);
    budget_.list(members.size() + 4);
    out.push_back(Value::group(first.list()[1], std::move(members)));
  }
  return Value(std::move(out));
}

Value Builtins::text_filter(const std::string& name, Arguments& a, bool& known) {
  known = true;
  Value v = a.get(0, "");
  auto text = [&] { return str(v, budget_); };
  if (name == "trim") {
    const Value x = v.is_string() ? v : made(text());
    Value strip = attribute(x, "strip");
    Arguments none{{}, {}, a.budget};
    if (a.has(1, "chars")) none.args.push_back(a.get(1, "chars"));
    return strip.function()(none);
  }
  if (name == "upper" || name == "lower") {
    const std::string s = text();
    count_cases(s, budget_);
    std::string out;
    for (size_t at = 0; at < s.size();)
      name == "upper" ? append_upper(out, next_char(s, at)) : append_lower(out, next_char(s, at));
    return made_like(v, std::move(out));
  }
  if (name == "title") return made(cased(text(), true, budget_));
  if (name == "capitalize") return made_like(v, cased(text(), false, budget_));
  if (name == "string") return v.is_string() ? v : made(text());
  if (name == "replace") {
    std::string s = text(), from = str(a.get(1, "old"), budget_), to = str(a.get(2, "new"), budget_), out;
    Value limit = a.get(3, "count", None{});
    int64_t most = limit.is_none() ? -1 : limit.is_number() ? limit.integer() : -1;
    if (from.empty()) raise("replace needs a text to look for");
    size_t at = 0;
    for (size_t found; most != 0 && (found = find_in(s, from, at, budget_)) != std::string::npos; at = found + from.size()) {
      budget_.step();
      append(out, std::string_view(s).substr(at, found - at), budget_);
      append(out, to, budget_);
      if (most > 0) --most;
    }
    append(out, std::string_view(s).substr(at), budget_);
    budget_.bytes(Budget::kTextBytes);
    return Value(std::move(out));
  }
  if (name == "tojson") {
    const Value indent = a.get(2, "indent", None{}), separators = a.get(3, "separators", None{});
    JsonStyle style;
    style.ascii = truth(a.get(1, "ensure_ascii", false)), style.sort = truth(a.get(4, "sort_keys", false));
    if (indent.is_string()) style.indent = indent.string();
    if (indent.is_number()) {
      if (indent.integer() > 1000) raise("tojson takes an indent of 1000 at most");
      style.indent = std::string(static_cast<size_t>(std::max<int64_t>(indent.integer(), 0)), ' ');
    }
    if (style.indent) style.comma = ",";
    if (!separators.is_none()) {
      if (!separators.is_list() || separators.list().size() != 2 || !separators.list()[0].is_string() ||
          !separators.list()[1].is_string())
        raise("tojson: separators are a pair of texts");
      style.comma = separators.list()[0].string(), style.colon = separators.list()[1].string();
    }
    return made(to_json(v, style, budget_));
  }
  known = false;
  return {};
}

Value Builtins::list_filter(const std::string& name, Arguments& a, bool& known) {
  known = true;
  const Value v = a.get(0, "");
  if (name == "join") {
    std::string by = str(a.get(1, "d", Value("")), budget_), out;
    Value attribute = a.get(2, "attribute", None{});
    bool first = true;
    const Value all = items(v, budget_);
    for (const Value& x : all.list()) {
      budget_.step();
      if (!first) append(out, by, budget_);
      first = false;
      append_str(out, attribute.is_none() ? x : by_path(x, attribute), budget_);
    }
    budget_.bytes(Budget::kTextBytes);
    return Value(std::move(out));
  }
  if (name == "list") {
    const Value all = items(v, budget_);
    return all.is_tuple() ? made(List(all.list())) : all;
  }
  if (name == "first" || name == "last") {
    const Value all = items(v, budget_);
    if (!truth(all)) return Undefined(name + " item");
    if (all.is_open() && name == "first") return all.open().at(0);
    return name == "first" ? all.list().front() : all.list().back();
  }
  if (name == "reverse") {
    if (v.is_string()) {
      budget_.chars(4 * v.string().size());
      budget_.bytes(4 * v.string().size());
      std::u32string s = chars(v.string());
      std::reverse(s.begin(), s.end());
      return made_like(v, utf8(s));
    }
    const Value all = items(v, budget_);
    return made(List(all.list().rbegin(), all.list().rend()));
  }
  if (name == "sort")
    return sorted(v, truth(a.get(1, "reverse", false)), !truth(a.get(2, "case_sensitive", false)),
                  a.get(3, "attribute", None{}));
  if (name == "min" || name == "max") {
    List l = sorted(v, false, !truth(a.get(1, "case_sensitive", false)), a.get(2, "attribute", None{}));
    if (l.empty()) return Undefined("item");
    return name == "min" ? l.front() : l.back();
  }
  if (name == "sum") {
    Value total = a.get(2, "start", Value(int64_t{0})), attribute = a.get(1, "attribute", None{});
    const Value all = items(v, budget_);
    for (const Value& x : all.list()) {
      budget_.step();
      total = binary("+", total, attribute.is_none() ? x : by_path(x, attribute));
    }
    return total;
  }
  if (name == "unique") {
    List out, keys;
    bool exact = truth(a.get(1, "case_sensitive", false));
    Value attribute = a.get(2, "attribute", None{});
    const Value all = items(v, budget_);
    for (const Value& x : all.list()) {
      budget_.list(2);
      Value key = attribute.is_none() ? x : by_path(x, attribute);
      if (!exact && key.is_string()) key = made(fold(key.string(), budget_));
      if (std::any_of(keys.begin(), keys.end(), [&](const Value& k) { return equal(k, key, budget_); })) continue;
      keys.push_back(key);
      out.push_back(x);
    }
    return out;
  }
  if (name == "map") {
    List out;
    if (!truth(v)) return out;
    const Value all = items(v, budget_);
    for (const Value& x : all.list()) {
      budget_.list(1);
      if (a.args.size() < 2) {
        Value r = by_path(x, a.get(1, "attribute"));
        out.push_back(r.is_undefined() ? a.get(9, "default", r) : r);
      } else {
        budget_.list(a.args.size() + 2 * a.named.size());
        Arguments f{{x}, a.named, a.budget};
        for (size_t k = 2; k < a.args.size(); ++k) f.args.push_back(a.args[k]);
        out.push_back(filter(str(a.args[1], budget_), f));
      }
    }
    return out;
  }
  if (name == "select" || name == "reject") return picked(a, false, name == "select");
  if (name == "selectattr" || name == "rejectattr") return picked(a, true, name == "selectattr");
  if (name == "items") {
    if (v.is_undefined()) return List{};
    if (!v.is_dict()) raise("items needs a mapping");
    Arguments none{{}, {}, a.budget};
    return attribute(v, "items").function()(none);
  }
  if (name == "dictsort") {
    if (!v.is_dict()) raise("dictsort needs a mapping");
    List l;
    budget_.list(5 * v.dict().size());
    for (const auto& [k, x] : v.dict()) l.push_back(Value(List{k, x}, true));
    Value by = a.get(2, "by", Value("key"));
    return sorted(Value(l), truth(a.get(3, "reverse", false)), !truth(a.get(1, "case_sensitive", false)),
                  Value(by.is_string() && by.string() == "value" ? int64_t{1} : int64_t{0}));
  }
  if (name == "batch") {
    List out, row;
    Value n = a.get(1, "linecount");
    if (!n.is_number() || n.integer() < 1) raise("batch needs a count");
    const Value all = items(v, budget_);
    budget_.list(4 * all.list().size());
    for (const Value& x : all.list()) {
      row.push_back(x);
      if (static_cast<int64_t>(row.size()) == n.integer()) out.emplace_back(std::exchange(row, {}));
    }
    if (const Value fill = a.get(2, "fill_with", None{}); !row.empty() && !fill.is_none()) {
      budget_.list(static_cast<size_t>(n.integer()));
      row.resize(static_cast<size_t>(n.integer()), fill);
    }
    if (!row.empty()) out.emplace_back(row);
    return out;
  }
  if (name == "slice") {
    const Value n = a.get(1, "slices"), fill = a.get(2, "fill_with", None{});
    if (!n.is_number() || n.is_float() || n.integer() == 0) raise("slice needs a count");
    const Value all = items(v, budget_);
    const List& list = all.list();
    List out;
    if (n.integer() < 0) return out;
    const int64_t each = static_cast<int64_t>(list.size()) / n.integer(),
                  more = static_cast<int64_t>(list.size()) % n.integer();
    auto at = list.begin();
    for (int64_t i = 0; i < n.integer(); ++i) {
      const auto end = at + static_cast<ptrdiff_t>(each + (i < more));
      List part(at, end);
      if (!fill.is_none() && i >= more) part.push_back(fill);
      budget_.list(part.size() + 1);
      out.emplace_back(std::move(part));
      at = end;
    }
    return out;
  }
  if (name == "groupby") return grouped(a);
  known = false;
  return {};
}

Value Builtins::filter(const std::string& name, Arguments& a) {
  Budget::Level level(budget_);
  budget_.work(int64_t{16});
  bool known = false;
  Value r = text_filter(name, a, known);
  if (known) return r;
  r = layout_filter(name, a, known);
  if (known) return r;
  r = list_filter(name, a, known);
  if (known) return r;
  const Value v = a.get(0, "");
  if (name == "length" || name == "count") return length(v, budget_);
  if (name == "default" || name == "d") {
    bool use = v.is_undefined() || (truth(a.get(2, "boolean", false)) && !truth(v));
    return use ? a.get(1, "default_value", Value("")) : v;
  }
  if (name == "int") return to_int(v, a.get(1, "default", Value(int64_t{0})), a.get(2, "base", Value(int64_t{10})), budget_);
  if (name == "float") return to_float(v, a.get(1, "default", Value(0.0)), budget_);
  if (name == "abs") {
    if (!v.is_number()) raise("abs needs a number");
    if (v.is_float()) return std::abs(v.number());
    return v.integer() < 0 ? binary("-", Value(int64_t{0}), v) : v;
  }
  if (name == "round") return rounded(v, a.get(1, "precision", Value(int64_t{0})), a.get(2, "method", Value("common")));
  if (name == "attr") {  // never an item of a dict
    const std::string of = str(a.get(1, "name"), budget_);
    return v.is_dict() ? method(v, of) : attribute(v, of);
  }
  raise("no filter named '{}'", shown(name));
}

bool Builtins::has_filter(std::string_view name) const {
  for (std::string_view f :
       {"abs",     "attr",    "batch", "capitalize",  "center", "count",      "d",         "default",  "dictsort", "e",
        "escape",  "first",   "float", "forceescape", "format", "groupby",    "indent",    "int",      "items",    "join",
        "last",    "length",  "list",  "lower",       "map",    "max",        "min",       "pprint",   "reject",   "rejectattr",
        "replace", "reverse", "round", "safe",        "select", "selectattr", "slice",     "sort",     "string",   "sum",
        "title",   "tojson",  "trim",  "truncate",    "unique", "upper",      "urlencode", "wordcount"})
    if (f == name) return true;
  return false;
}

bool Builtins::has_test(std::string_view name) const {
  for (std::string_view t : {"defined", "undefined", "none",   "boolean",     "true",     "false",    "integer",
                             "float",   "number",    "string", "mapping",     "iterable", "sequence", "callable",
                             "sameas",  "equalto",   "eq",     "==",          "ne",       "!=",       "lt",
                             "<",       "lessthan",  "le",     "<=",          "gt",       ">",        "greaterthan",
                             "ge",      ">=",        "in",     "divisibleby", "odd",      "even",     "upper",
                             "lower",   "test",      "filter", "escaped"})
    if (t == name) return true;
  return false;
}

bool Builtins::test(const std::string& name, Arguments& a) {
  budget_.step();
  if (!has_test(name)) raise("no test named '{}'", shown(name));
  const Value v = a.get(0, ""), w = a.get(1, "other");
  if (name == "defined") return !v.is_undefined();
  if (name == "undefined") return v.is_undefined();
  if (name == "none") return v.is_none();
  if (name == "boolean") return v.is_bool();
  if (name == "true") return v.is_bool() && v.boolean();
  if (name == "false") return v.is_bool() && !v.boolean();
  if (name == "integer") return v.is_int();
  if (name == "float") return v.is_float();
  if (name == "number") return v.is_number();
  if (name == "string") return v.is_string();
  if (name == "mapping") return v.is_dict();
  if (name == "iterable" || name == "sequence") return v.is_string() || v.is_list() || v.is_dict() || v.is_undefined();
  if (name == "callable") return v.is_function();
  if (name == "test") return v.is_string() && has_test(v.string());
  if (name == "filter") return v.is_string() && has_filter(v.string());
  if (name == "escaped") return v.is_markup();
  if (name == "sameas") return std::string_view(type_name(v)) == type_name(w) && equal(v, w, budget_);
  if (name == "equalto" || name == "eq" || name == "==") return equal(v, w, budget_);
  if (name == "ne" || name == "!=") return !equal(v, w, budget_);
  if (name == "lt" || name == "<" || name == "lessthan") return less(v, w, budget_);
  if (name == "gt" || name == ">" || name == "greaterthan") return less(w, v, budget_);
  if (name == "le" || name == "<=") return !less(w, v, budget_);
  if (name == "ge" || name == ">=") return !less(v, w, budget_);
  if (name == "in") return contains(w, v, budget_);
  if (name == "upper" || name == "lower") {
    Value method = attribute(v.is_string() ? v : made(str(v, budget_)), name == "upper" ? "isupper" : "islower");
    Arguments none{{}, {}, a.budget};
    return truth(method.function()(none));
  }
  if (!v.is_number() || v.is_float()) raise("the test '{}' needs an integer", name);
  if (name == "odd") return v.integer() % 2 != 0;
  if (name == "even") return v.integer() % 2 == 0;
  if (!w.is_number() || w.integer() == 0) raise("divisibleby needs a number");
  return w.integer() == -1 || v.integer() % w.integer() == 0;
}

}  // namespace ravine::jinja
