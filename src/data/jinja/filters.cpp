// Filters and tests (jinja2/filters.py, tests.py).
#include <algorithm>
#include <charconv>
#include <cmath>

#include "data/jinja/builtins.h"
#include "data/tokenizers/unicode.h"

namespace ravine::jinja {

namespace {

std::string cased(std::string_view text, bool title) {
  std::string out;
  bool begin = true;
  for (char32_t c : chars(text)) {
    if (begin)
      append_upper(out, c);
    else
      append_lower(out, c);
    begin = title && (is_unicode_space(c) || std::u32string_view(U"-([{<").find(c) != std::u32string_view::npos);
  }
  return out;
}

std::string fold(const std::string& s) {
  std::string out;
  for (char32_t c : chars(s)) append_lower(out, c);
  return out;
}

Value to_int(const Value& v, const Value& fallback) {
  if (v.is_float()) return std::abs(v.number()) < 9e18 ? Value(static_cast<int64_t>(v.number())) : fallback;
  if (v.is_number()) return v.integer();
  if (v.is_string()) {
    std::string_view s = strip_right(strip_left(v.string()));
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

Value to_float(const Value& v, const Value& fallback) {
  if (v.is_number()) return v.number();
  if (v.is_string()) {
    std::string_view s = strip_right(strip_left(v.string()));
    double d = 0;
    auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), d);
    if (error == std::errc{} && end == s.data() + s.size()) return d;
  }
  return fallback;
}

Value rounded(const Value& v, const Value& precision, const Value& method) {
  if (!v.is_number() || !precision.is_number()) raise("round needs a number");
  double scale = std::pow(10.0, static_cast<double>(precision.integer()));
  double x = v.number() * scale;
  std::string how = method.is_string() ? method.string() : "";
  if (how == "ceil") return std::ceil(x) / scale;
  if (how == "floor") return std::floor(x) / scale;
  if (how != "common") raise("method must be common, ceil or floor");
  return std::nearbyint(x) / scale;
}

}  // namespace

Value Builtins::by_path(const Value& of, const Value& path) {
  if (path.is_number()) return item(of, path);
  if (!path.is_string()) raise("an attribute must be a name");
  Value v = of;
  for (std::string_view rest = path.string(); !rest.empty();) {
    size_t dot = std::min(rest.find('.'), rest.size());
    std::string_view part = rest.substr(0, dot);
    int64_t i = 0;
    bool number = std::from_chars(part.data(), part.data() + part.size(), i).ptr == part.data() + part.size() && !part.empty();
    v = item(v, number ? Value(i) : Value(part));
    rest.remove_prefix(std::min(dot + 1, rest.size()));
  }
  return v;
}

List Builtins::sorted(const Value& v, bool reverse, bool fold_case, const Value& attribute) {
  List l = items(v, budget_);
  budget_.step(static_cast<int64_t>(l.size()) * 16);
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& x : l) {
    Value key = attribute.is_none() ? x : by_path(x, attribute);
    keyed.emplace_back(fold_case && key.is_string() ? Value(fold(key.string())) : key, x);
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) { return reverse ? less(b.first, a.first) : less(a.first, b.first); });
  for (size_t i = 0; i < l.size(); ++i) l[i] = keyed[i].second;
  return l;
}

// select, reject, selectattr, rejectattr: args are the list, [the attribute,] the test's name and its arguments.
List Builtins::picked(Arguments& a, bool by_attribute, bool keep) {
  List out;
  size_t at = by_attribute ? 2 : 1;
  std::string name = a.args.size() > at ? str(a.args[at], budget_) : "";
  for (const Value& x : items(a.get(0, ""), budget_)) {
    Value subject = by_attribute ? by_path(x, a.get(1, "attribute")) : x;
    bool good = truth(subject);
    if (!name.empty()) {
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
  const Value v = a.get(0, "");
  auto text = [&] { return str(v, budget_); };
  auto no_undefined = [&] {
    if (v.is_undefined() && name != "string") budget_.step();
  };
  no_undefined();
  if (name == "trim") {
    std::string s = text();
    Value x{s};
    Value strip = attribute(x, "strip");
    Arguments none{{}, {}, a.budget};
    if (a.has(1, "chars")) none.args.push_back(a.get(1, "chars"));
    return strip.function()(none);
  }
  if (name == "upper" || name == "lower") {
    std::string out;
    for (char32_t c : chars(text())) name == "upper" ? append_upper(out, c) : append_lower(out, c);
    return made(std::move(out));
  }
  if (name == "title" || name == "capitalize") return made(cased(text(), name == "title"));
  if (name == "string") return made(text());
  if (name == "safe") return v;
  if (name == "escape" || name == "e") {
    std::string out;
    for (char c : text()) {
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
    for (size_t found; most != 0 && (found = s.find(from, at)) != std::string::npos; at = found + from.size()) {
      out.append(s, at, found - at);
      out += to;
      if (out.size() > size_t{64} << 20) raise("the template makes too much text");
      if (most > 0) --most;
    }
    return made(out.append(s, at));
  }
  if (name == "indent") {
    Value width = a.get(1, "width", Value(int64_t{4}));
    if (width.is_number() && (width.integer() < 0 || width.integer() > 1000)) raise("indent takes a width of 0 to 1000");
    std::string pad = width.is_string() ? width.string() : std::string(static_cast<size_t>(width.is_number() ? width.integer() : 4), ' ');
    bool first = truth(a.get(2, "first", false)), blank = truth(a.get(3, "blank", false));
    std::string out, s = text();
    if (s.size() * (pad.size() + 1) > size_t{64} << 20) raise("the template makes too much text");
    bool line_start = true, first_line = true;
    for (size_t i = 0; i < s.size(); ++i) {
      if (line_start && (!first_line || first) && (blank || s[i] != '\n')) out += pad;
      line_start = s[i] == '\n';
      first_line = first_line && !line_start;
      out += s[i];
    }
    return made(std::move(out));
  }
  if (name == "wordcount") {
    int64_t n = 0;
    bool in = false;
    for (char32_t c : chars(text())) {
      bool word = !is_unicode_space(c);
      n += word && !in;
      in = word;
    }
    return n;
  }
  if (name == "center") {
    std::string s = text();
    Value w = a.get(1, "width", Value(int64_t{80}));
    int64_t width = w.is_number() ? std::min<int64_t>(w.integer(), 100000) : 80, n = length(Value(s));
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
    for (const Value& x : items(v, budget_)) {
      if (!first) out += by;
      first = false;
      out += str(attribute.is_none() ? x : by_path(x, attribute), budget_);
      if (out.size() > size_t{64} << 20) raise("the template makes too much text");
    }
    return made(std::move(out));
  }
  if (name == "list") return items(v, budget_);
  if (name == "first" || name == "last") {
    List l = items(v, budget_);
    if (l.empty()) return Undefined{name + " item"};
    return name == "first" ? l.front() : l.back();
  }
  if (name == "reverse") {
    if (v.is_string()) {
      std::u32string s = chars(v.string());
      std::reverse(s.begin(), s.end());
      return made(utf8(s));
    }
    List l = items(v, budget_);
    std::reverse(l.begin(), l.end());
    return l;
  }
  if (name == "sort")
    return sorted(v, truth(a.get(1, "reverse", false)), !truth(a.get(2, "case_sensitive", false)), a.get(3, "attribute", None{}));
  if (name == "min" || name == "max") {
    List l = sorted(v, false, !truth(a.get(1, "case_sensitive", false)), a.get(2, "attribute", None{}));
    if (l.empty()) return Undefined{"item"};
    return name == "min" ? l.front() : l.back();
  }
  if (name == "sum") {
    Value total = a.get(2, "start", Value(int64_t{0})), attribute = a.get(1, "attribute", None{});
    for (const Value& x : items(v, budget_)) total = binary("+", total, attribute.is_none() ? x : by_path(x, attribute));
    return total;
  }
  if (name == "unique") {
    List out, keys;
    bool exact = truth(a.get(1, "case_sensitive", false));
    Value attribute = a.get(2, "attribute", None{});
    for (const Value& x : items(v, budget_)) {
      Value key = attribute.is_none() ? x : by_path(x, attribute);
      if (!exact && key.is_string()) key = Value(fold(key.string()));
      budget_.step(static_cast<int64_t>(keys.size()));
      if (std::any_of(keys.begin(), keys.end(), [&](const Value& k) { return equal(k, key); })) continue;
      keys.push_back(key);
      out.push_back(x);
    }
    return out;
  }
  if (name == "map") {
    List out;
    for (const Value& x : items(v, budget_)) {
      if (a.args.size() < 2) {
        Value r = by_path(x, a.get(1, "attribute"));
        out.push_back(r.is_undefined() ? a.get(9, "default", r) : r);
      } else {
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
    for (const auto& [k, x] : v.dict()) l.push_back(Value(List{k, x}, true));
    Value by = a.get(2, "by", Value("key"));
    return sorted(Value(l), truth(a.get(3, "reverse", false)), !truth(a.get(1, "case_sensitive", false)),
                  Value(by.is_string() && by.string() == "value" ? int64_t{1} : int64_t{0}));
  }
  if (name == "batch") {
    List out, row;
    Value n = a.get(1, "linecount");
    if (!n.is_number() || n.integer() < 1) raise("batch needs a count");
    for (const Value& x : items(v, budget_)) {
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
  budget_.step();
  bool known = false;
  Value r = text_filter(name, a, known);
  if (known) return r;
  r = list_filter(name, a, known);
  if (known) return r;
  const Value v = a.get(0, "");
  if (name == "length" || name == "count") return length(v);
  if (name == "default" || name == "d") {
    bool use = v.is_undefined() || (truth(a.get(2, "boolean", false)) && !truth(v));
    return use ? a.get(1, "default_value", Value("")) : v;
  }
  if (name == "int") return to_int(v, a.get(1, "default", Value(int64_t{0})));
  if (name == "float") return to_float(v, a.get(1, "default", Value(0.0)));
  if (name == "abs") {
    if (!v.is_number()) raise("abs needs a number");
    if (v.is_float()) return std::abs(v.number());
    return v.integer() < 0 ? binary("-", Value(int64_t{0}), v) : v;
  }
  if (name == "round") return rounded(v, a.get(1, "precision", Value(int64_t{0})), a.get(2, "method", Value("common")));
  if (name == "attr") return attribute(v, str(a.get(1, "name"), budget_));
  raise("no filter named '{}'", name);
}

bool Builtins::has_test(std::string_view name) const {
  for (std::string_view t : {"defined", "undefined", "none", "boolean", "true", "false", "integer", "float", "number", "string", "mapping", "iterable",
                             "sequence", "callable", "sameas", "equalto", "eq", "==", "ne", "!=", "lt", "<", "lessthan", "le", "<=", "gt", ">",
                             "greaterthan", "ge", ">=", "in", "divisibleby", "odd", "even", "upper", "lower", "test", "filter"})
    if (t == name) return true;
  return false;
}

bool Builtins::test(const std::string& name, Arguments& a) {
  budget_.step();
  if (!has_test(name)) raise("no test named '{}'", name);
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
  if (name == "sameas") return std::string_view(type_name(v)) == type_name(w) && equal(v, w);
  if (name == "equalto" || name == "eq" || name == "==") return equal(v, w);
  if (name == "ne" || name == "!=") return !equal(v, w);
  if (name == "lt" || name == "<" || name == "lessthan") return less(v, w);
  if (name == "gt" || name == ">" || name == "greaterthan") return less(w, v);
  if (name == "le" || name == "<=") return !less(w, v);
  if (name == "ge" || name == ">=") return !less(v, w);
  if (name == "in") return contains(w, v, budget_);
  if (name == "upper" || name == "lower") {
    Value method = attribute(v.is_string() ? v : Value(str(v, budget_)), name == "upper" ? "isupper" : "islower");
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
