// Filters of layout: format, indent, center, truncate, wordcount, pprint, and filters for HTML.
#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/unicode/unicode.h"

namespace ravine::jinja {

namespace {

// Python's pprint.pformat: values wider than 80 characters have one element per line; dicts are sorted by keys.
class Pretty {
 public:
  explicit Pretty(Budget& budget) : budget_(budget) {}

  void value(const Value& v, int64_t indent, int64_t allowance, int level) {
    std::string all;
    one_line(all, v);
    if (count_chars(all, budget_) <= kWidth - indent - allowance || !(v.is_list() || v.is_dict() || v.is_string()))
      return add(all);
    if (v.is_markup()) return add(all);
    if (v.is_string()) return text(v.string(), indent, allowance, level + 1);
    if (v.is_dict()) {
      const auto order = by_key(v);
      add("{");
      for (size_t i = 0; i < order.size(); ++i) {
        std::string key;
        append_repr(key, order[i]->first, budget_, false);
        if (i) add(",\n" + std::string(static_cast<size_t>(indent + 1), ' '));
        add(key + ": ");
        const bool last = i + 1 == order.size();
        value(order[i]->second, indent + 1 + count_chars(key, budget_) + 2, last ? allowance + 1 : 1, level + 1);
      }
      return add("}");
    }
    const List& list = v.list();
    const bool single = v.is_tuple() && list.size() == 1;
    add(v.is_tuple() ? "(" : "[");
    for (size_t i = 0; i < list.size(); ++i) {
      if (i) add(",\n" + std::string(static_cast<size_t>(indent + 1), ' '));
      const bool last = i + 1 == list.size();
      value(list[i], indent + 1, last ? allowance + (single ? 2 : 1) : 1, level + 1);
    }
    add(v.is_tuple() ? (single ? ",)" : ")") : "]");
  }
  std::string out;

 private:
  static constexpr int64_t kWidth = 80;
  void add(std::string_view s) { append(out, s, budget_); }

  std::vector<const std::pair<Value, Value>*> by_key(const Value& v) {
    std::vector<const std::pair<Value, Value>*> order;
    budget_.list(v.dict().size());
    for (const auto& e : v.dict()) order.push_back(&e);
    std::stable_sort(order.begin(), order.end(), [&](const auto* a, const auto* b) {
      const bool alike = (a->first.is_number() && b->first.is_number()) || (a->first.is_string() && b->first.is_string());
      if (alike) return less(a->first, b->first, budget_);
      return std::string_view(type_name(a->first)) < type_name(b->first);
    });
    return order;
  }

  void one_line(std::string& to, const Value& v) {
    Budget::Level level(budget_);
    if (v.is_dict()) {
      append(to, "{", budget_);
      bool first = true;
      for (const auto* e : by_key(v)) {
        if (!std::exchange(first, false)) append(to, ", ", budget_);
        one_line(to, e->first);
        append(to, ": ", budget_);
        one_line(to, e->second);
      }
      append(to, "}", budget_);
    } else if (v.is_list()) {
      append(to, v.is_tuple() ? "(" : "[", budget_);
      bool first = true;
      for (const Value& x : v.list()) {
        if (!std::exchange(first, false)) append(to, ", ", budget_);
        one_line(to, x);
      }
      if (v.is_tuple() && v.list().size() == 1) append(to, ",", budget_);
      append(to, v.is_tuple() ? ")" : "]", budget_);
    } else {
      append_repr(to, v, budget_, false);
    }
  }

  std::string repr(std::string_view s) {
    std::string r;
    append_repr(r, Value(s), budget_, false);
    return r;
  }

  // Writes a text in pieces of whole words, one per line.
  void text(std::string_view s, int64_t indent, int64_t allowance, int level) {
    if (level == 1) ++indent, ++allowance;
    const int64_t width = kWidth - indent;
    std::vector<std::string> chunks;
    while (!s.empty()) {
      size_t end = s.find('\n');
      end = end == std::string_view::npos ? s.size() : end + 1;
      const std::string_view line = s.substr(0, end);
      s.remove_prefix(end);
      const std::string whole = repr(line);
      if (count_chars(whole, budget_) <= width - (s.empty() ? allowance : 0)) {
        chunks.push_back(whole);
        continue;
      }
      std::string current;
      for (size_t at = 0; at < line.size();) {
        size_t stop = at, next = at;
        while (stop < line.size() && (next = stop, !is_unicode_space(next_char(line, next)))) stop = next;
        while (stop < line.size() && (next = stop, is_unicode_space(next_char(line, next)))) stop = next;
        const bool last = stop == line.size() && s.empty();
        const std::string candidate = current + std::string(line.substr(at, stop - at));
        if (count_chars(repr(candidate), budget_) > width - (last ? allowance : 0)) {
          if (!current.empty()) chunks.push_back(repr(current));
          current = line.substr(at, stop - at);
        } else {
          current = candidate;
        }
        at = stop;
      }
      if (!current.empty()) chunks.push_back(repr(current));
    }
    const bool brackets = level == 1 && chunks.size() > 1;
    if (brackets) add("(");
    for (size_t i = 0; i < chunks.size(); ++i) {
      if (i) add("\n" + std::string(static_cast<size_t>(indent), ' '));
      add(chunks[i]);
    }
    if (brackets) add(")");
  }

  Budget& budget_;
};

int64_t number_of(const Value& v, const char* what) {
  if (!v.is_number() || v.is_float()) raise("{} must be a whole number", what);
  return v.integer();
}

// Encodes bytes for a URL: letters, digits, '_.-~' and, if `slash`, '/' are unchanged.
std::string quoted(std::string_view s, bool slash, Budget& budget) {
  budget.chars(4 * s.size());
  budget.bytes(3 * s.size());
  std::string out;
  for (const char c : s) {
    const auto u = static_cast<unsigned char>(c);
    if ((u < 0x80 && std::isalnum(u)) || std::string_view("_.-~").find(c) != std::string_view::npos || (slash && c == '/'))
      out += c;
    else
      out += fmt::format("%{:02X}", u);
  }
  return out;
}

}  // namespace

Value Builtins::layout_filter(const std::string& name, Arguments& a, bool& known) {
  static constexpr std::string_view kNames[] = {"format", "indent", "center", "truncate",    "wordcount", "pprint",
                                                "safe",   "escape", "e",      "forceescape", "urlencode"};
  known = std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
  if (!known) return {};
  const Value v = a.get(0, "");
  const Value text = v.is_string() || name == "pprint" ? v : made(str(v, budget_));
  if (name == "format") {
    if (a.args.size() > 1 && !a.named.empty()) raise("can't handle positional and keyword arguments at the same time");
    Dict named;
    for (const auto& [k, x] : a.named) named.emplace_back(Value(k), x);
    budget_.list(a.args.size() + 2 * named.size());
    return percent_format(text, named.empty() ? Value(List(a.args.begin() + 1, a.args.end()), true) : Value(std::move(named)));
  }
  if (name == "indent") {
    const Value width = a.get(1, "width", Value(int64_t{4}));
    if (width.is_number() && (width.integer() < 0 || width.integer() > 1000)) raise("indent takes a width of 0 to 1000");
    const std::string pad =
        width.is_string() ? width.string() : std::string(static_cast<size_t>(width.is_number() ? width.integer() : 4), ' ');
    const bool first = truth(a.get(2, "first", false)), blank = truth(a.get(3, "blank", false));
    const std::string& s = text.string();
    std::string out;
    budget_.chars(4 * s.size());
    bool line_start = true, first_line = true;
    for (const char c : s) {
      if (line_start && (!first_line || first) && (blank || c != '\n')) append(out, pad, budget_);
      line_start = c == '\n';
      first_line = first_line && !line_start;
      out += c;
    }
    return made_like(text, std::move(out));
  }
  if (name == "center") {
    const Value w = a.get(1, "width", Value(int64_t{80}));
    const int64_t width = w.is_number() ? w.integer() : 80, n = length(text, budget_);
    if (width > 100000 && width > n) raise("center takes a width of 100000 at most");
    if (width <= n) return text;
    const int64_t total = width - n, left = total / 2 + (total & width & 1);
    return made_like(text, std::string(static_cast<size_t>(left), ' ') + text.string() +
                               std::string(static_cast<size_t>(total - left), ' '));
  }
  if (name == "truncate") {
    const Value end = a.get(3, "end", Value("...")), slack = a.get(4, "leeway", None{});
    const int64_t most = number_of(a.get(1, "length", Value(int64_t{255})), "the length"),
                  leeway = slack.is_none() ? 5 : number_of(slack, "leeway"), tail = length(end, budget_);
    if (most < tail) raise("expected length >= {}, got {}", tail, most);
    if (leeway < 0) raise("expected leeway >= 0, got {}", leeway);
    if (length(text, budget_) <= most || length(text, budget_) - leeway <= most) return text;
    const Value cut(most - tail);
    std::string kept = slice(text, nullptr, &cut, nullptr).string();
    if (const size_t space = kept.rfind(' '); !truth(a.get(2, "killwords", false)) && space != std::string::npos)
      kept.resize(space);
    return binary("+", made_like(text, std::move(kept)), end);
  }
  if (name == "wordcount") {
    int64_t n = 0;
    bool in = false;  // Python's \w: letters, numbers and '_'
    const std::string& s = text.string();
    const auto table = char_table();
    budget_.chars(2 * s.size());
    for (size_t at = 0; at < s.size();) {
      const char32_t c = next_char(s, at);
      const bool word = c == '_' || (table->of(c) & (kLetter | kNumber));
      n += word && !in;
      in = word;
    }
    return n;
  }
  if (name == "pprint") {
    Pretty pretty(budget_);
    pretty.value(v, 0, 0, 0);
    return made(std::move(pretty.out));
  }
  if (name == "safe") return Value::markup(text.string());
  if (name == "escape" || name == "e")
    return text.is_markup() ? text : Value::markup(made(escaped(text.string(), budget_)).string());
  if (name == "forceescape") return Value::markup(made(escaped(text.string(), budget_)).string());
  if (!v.is_dict() && !v.is_list()) return made(quoted(text.string(), true, budget_));  // urlencode
  std::string out;
  auto pair = [&](const Value& key, const Value& value) {
    if (!out.empty()) append(out, "&", budget_);
    std::string s = quoted(str(key, budget_), false, budget_) + "=" + quoted(str(value, budget_), false, budget_);
    for (size_t at = 0; (at = s.find("%20", at)) != std::string::npos;) s.replace(at, 3, "+");
    append(out, s, budget_);
  };
  if (v.is_dict()) {
    for (const auto& [key, value] : v.dict()) pair(key, value);
    return made(std::move(out));
  }
  for (const Value& one : v.list()) {
    if (!one.is_list() || one.list().size() != 2) raise("urlencode needs a text, a mapping or pairs");
    pair(one.list()[0], one.list()[1]);
  }
  return made(std::move(out));
}

}  // namespace ravine::jinja
