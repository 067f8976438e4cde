// Filters and tests (jinja2/filters.py, tests.py).
#include <algorithm>
#include <charconv>
#include <cmath>

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

Value to_int(const Value& v, const Value& fallback, Budget& budget) {
  if (v.is_float()) return std::abs(v.number()) < 9e18 ? Value(static_cast<int64_t>(v.number())) : fallback;
  if (v.is_number()) return v.integer();
  if (v.is_string()) {
    std::string_view s = number_text(v, budget);
    bool plus = s.starts_with('+');
    if (plus) s.remove_prefix(1);
    int64_t i = 0;
    auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), i);
    if (error == std::errc{} && end == s.data() + s.size()) return i;
    double d = 0;
    auto [end2, error2] = std::from_chars(s.data(), s.data() + s.size(), d);
    if (error2 == std::errc{} && end2 == s.data() + s.size() && std::abs(d) < 9e18) return static_cast<int64_t>(d);
  }
  return fallback;
}

Value to_float(const Value& v, const Value& fallback, Budget& budget) {
  if (v.is_number()) return v.number();
  if (v.is_string()) {
    std::string_view s = number_text(v, budget);
    double d = 0;
    auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), d);
    if (error == std::errc{} && end == s.data() + s.size()) return d;
  }
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
  const Value all = items(a.get(0, ""), budget_);
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
    return made(std::move(out));
  }
  if (name == "title" || name == "capitalize") return made(cased(text(), name == "title", budget_));
  if (name == "string") return v.is_string() ? v : made(text());
  if (name == "safe") return v;
  if (name == "escape" || name == "e") {
    std::string out, s = text();
    budget_.chars(2 * s.size());
    budget_.bytes(4 * s.size());
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
    return made(std::move(out));
  }
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
  if (name == "indent") {
    Value width = a.get(1, "width", Value(int64_t{4}));
    if (width.is_number() && (width.integer() < 0 || width.integer() > 1000)) raise("indent takes a width of 0 to 1000");
    std::string pad =
        width.is_string() ? width.string() : std::string(static_cast<size_t>(width.is_number() ? width.integer() : 4), ' ');
    bool first = truth(a.get(2, "first", false)), blank = truth(a.get(3, "blank", false));
    std::string out, s = text();
    budget_.chars(4 * s.size());
    bool line_start = true, first_line = true;
    for (size_t i = 0; i < s.size(); ++i) {
      if (line_start && (!first_line || first) && (blank || s[i] != '\n')) append(out, pad, budget_);
      line_start = s[i] == '\n';
      first_line = first_line && !line_start;
      out += s[i];
    }
    return made(std::move(out));
  }
  if (name == "wordcount") {
    int64_t n = 0;
    bool in = false;
    const std::string s = text();
    budget_.chars(2 * s.size());
    for (size_t at = 0; at < s.size();) {
      bool word = !is_unicode_space(next_char(s, at));
      n += word && !in;
      in = word;
    }
    return n;
  }
  if (name == "center") {
    std::string s = text();
    Value w = a.get(1, "width", Value(int64_t{80}));
    int64_t width = w.is_number() ? std::min<int64_t>(w.integer(), 100000) : 80,
            n = length(v.is_string() ? v : Value(s), budget_);
    if (width <= n) return made(s);
    int64_t total = width - n, left = total / 2 + (total & width & 1);
    return made(std::string(static_cast<size_t>(left), ' ') + s + std::string(static_cast<size_t>(total - left), ' '));
  }
  if (name == "tojson") {
    Value indent = a.get(2, "indent", None{});
    if (a.named.empty() && a.args.size() > 1) indent = a.args.size() > 2 ? a.args[2] : Value(None{});
    bool ascii = truth(a.get(1, "ensure_ascii", false)), sort = truth(a.get(4, "sort_keys", false));
    if (a.has(3, "separators") && !a.get(3, "separators").is_none()) raise("tojson: separators are not supported");
    int width = indent.is_number() ? static_cast<int>(std::clamp<int64_t>(indent.integer(), 0, 64)) : -1;
    return made(to_json(v, width, ascii, sort, budget_));
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
      return made(utf8(s));
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
    if (!row.empty()) out.emplace_back(row);
    return out;
  }
  known = false;
  return {};
}

Value Builtins::filter(const std::string& name, Arguments& a) {
  Budget::Level level(budget_);
  budget_.work(int64_t{16});
  bool known = false;
  Value r = text_filter(name, a, known);
  if (known) return r;
  r = list_filter(name, a, known);
  if (known) return r;
  const Value v = a.get(0, "");
  if (name == "length" || name == "count") return length(v, budget_);
  if (name == "default" || name == "d") {
    bool use = v.is_undefined() || (truth(a.get(2, "boolean", false)) && !truth(v));
    return use ? a.get(1, "default_value", Value("")) : v;
  }
  if (name == "int") return to_int(v, a.get(1, "default", Value(int64_t{0})), budget_);
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

bool Builtins::has_test(std::string_view name) const {
  for (std::string_view t : {"defined", "undefined", "none",   "boolean",     "true",     "false",    "integer",
                             "float",   "number",    "string", "mapping",     "iterable", "sequence", "callable",
                             "sameas",  "equalto",   "eq",     "==",          "ne",       "!=",       "lt",
                             "<",       "lessthan",  "le",     "<=",          "gt",       ">",        "greaterthan",
                             "ge",      ">=",        "in",     "divisibleby", "odd",      "even",     "upper",
                             "lower",   "test",      "filter"})
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
  if (name == "filter") raise("the test 'filter' is not supported");
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
