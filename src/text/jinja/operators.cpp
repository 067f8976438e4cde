// Operators, attributes, subscripts and slices.
#include <algorithm>
#include <cmath>

#include "text/jinja/builtins.h"
#include "text/unicode/unicode.h"

namespace ravine::jinja {

namespace {

constexpr int64_t kLongestProduct = 1'000'000;

[[noreturn]] void unsupported(const std::string& op, const Value& a, const Value& b) {
  if (a.is_undefined()) raise("'{}' is undefined", a.undefined_name());
  if (b.is_undefined()) raise("'{}' is undefined", b.undefined_name());
  raise("unsupported operand types for {}: '{}' and '{}'", op, type_name(a), type_name(b));
}

int64_t floor_div(int64_t a, int64_t b) {
  if (a == INT64_MIN && b == -1) raise("a number is too large");
  int64_t q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}

Value power(const Value& a, const Value& b) {
  if (a.is_float() || b.is_float() || b.integer() < 0) return std::pow(a.number(), b.number());
  int64_t r = 1, base = a.integer();
  if (base == 0 || base == 1) return b.integer() == 0 ? int64_t{1} : base;
  if (base == -1) return b.integer() % 2 ? int64_t{-1} : int64_t{1};
  for (int64_t i = 0; i < b.integer(); ++i)
    if (__builtin_mul_overflow(r, base, &r)) raise("a number is too large");
  return r;
}

}  // namespace

Value Builtins::made(std::string s) {
  budget_.work(int64_t{4});
  budget_.read(s.size());
  budget_.bytes(s.size() + Budget::kTextBytes);
  return Value(std::move(s));
}

Value Builtins::made_like(const Value& of, std::string s) {
  Value v = made(std::move(s));
  return of.is_markup() ? Value::markup(v.string()) : v;
}

Value Builtins::made(List l, bool tuple) {
  budget_.list(l.size());
  return Value(std::move(l), tuple);
}

Value Builtins::binary(const std::string& op, const Value& a, const Value& b) {
  auto joined = [&](bool markup) {
    std::string out;
    for (const Value* v : {&a, &b})
      markup && !v->is_markup() ? append(out, escaped(str(*v, budget_), budget_), budget_) : append_str(out, *v, budget_);
    budget_.bytes(Budget::kTextBytes);
    return markup ? Value::markup(std::move(out)) : Value(std::move(out));
  };
  if (op == "~") return joined(false);
  bool numbers = a.is_number() && b.is_number(), real = a.is_float() || b.is_float();
  if (op == "+") {
    if (numbers) return real ? Value(a.number() + b.number()) : Value(add_checked(a.integer(), b.integer()));
    if (a.is_string() && b.is_string()) return joined(a.is_markup() || b.is_markup());
    if (a.is_list() && b.is_list() && a.is_tuple() == b.is_tuple()) {
      budget_.list(a.list().size() + b.list().size());
      List l;
      l.reserve(a.list().size() + b.list().size());
      l.insert(l.end(), a.list().begin(), a.list().end());
      l.insert(l.end(), b.list().begin(), b.list().end());
      return Value(std::move(l), a.is_tuple());
    }
  } else if (op == "*" && ((a.is_string() && b.is_int()) || (a.is_int() && b.is_string()))) {
    const std::string& s = (a.is_string() ? a : b).string();
    int64_t n = std::max<int64_t>(0, (a.is_string() ? b : a).integer());
    if (s.empty()) n = 0;
    if (n > 0 && n > static_cast<int64_t>(Budget::kLongestText / s.size()))
      beyond("the template makes too much text (more than {} MiB)", Budget::kLongestText >> 20);
    const size_t bytes = static_cast<size_t>(n) * s.size();
    budget_.work(n);
    budget_.read(bytes);
    budget_.bytes(bytes + Budget::kTextBytes);
    std::string out;
    out.reserve(bytes);
    for (int64_t i = 0; i < n; ++i) out += s;
    return (a.is_string() ? a : b).is_markup() ? Value::markup(std::move(out)) : Value(std::move(out));
  } else if (op == "*" && ((a.is_list() && b.is_int()) || (a.is_int() && b.is_list()))) {
    const Value& v = a.is_list() ? a : b;
    int64_t n = v.list().empty() ? 0 : std::max<int64_t>(0, (a.is_list() ? b : a).integer());
    if (n > kLongestProduct) beyond("the template makes too long a list (more than {} times another)", kLongestProduct);
    budget_.list(static_cast<size_t>(n) * v.list().size());
    List l;
    l.reserve(static_cast<size_t>(n) * v.list().size());
    for (int64_t i = 0; i < n; ++i) l.insert(l.end(), v.list().begin(), v.list().end());
    return Value(std::move(l), v.is_tuple());
  } else if (op == "%" && a.is_string()) {
    return percent_format(a, b);
  }
  if (!numbers) unsupported(op, a, b);
  if (op == "-") {
    if (real) return a.number() - b.number();
    int64_t r;
    if (__builtin_sub_overflow(a.integer(), b.integer(), &r)) raise("a number is too large");
    return r;
  }
  if (op == "*") {
    if (real) return a.number() * b.number();
    int64_t r;
    if (__builtin_mul_overflow(a.integer(), b.integer(), &r)) raise("a number is too large");
    return r;
  }
  if (op == "**") return power(a, b);
  if (b.number() == 0) raise("division by zero");
  if (op == "/") return a.number() / b.number();
  if (op == "//") return real ? Value(std::floor(a.number() / b.number())) : Value(floor_div(a.integer(), b.integer()));
  if (op == "%") {
    if (!real)
      return b.integer() == -1 ? Value(int64_t{0}) : Value(a.integer() - b.integer() * floor_div(a.integer(), b.integer()));
    double r = std::fmod(a.number(), b.number());
    return r == 0 ? std::copysign(r, b.number()) : (r < 0) != (b.number() < 0) ? r + b.number() : r;
  }
  raise("unknown operator {}", op);
}

Value Builtins::attribute(const Value& of, std::string_view name) {
  if (of.is_undefined()) raise("'{}' is undefined", of.undefined_name());
  if (of.is_namespace()) {
    if (of.space()->loop) return loop_attribute(of.space(), name);
    if (of.space()->cycler) return cycler_attribute(of.space(), name);
    budget_.work(of.space()->fields.size());
    Value* v = of.space()->find(name);
    return v ? *v : Value(Undefined(name));
  }
  Value m = method(of, name);
  if (!m.is_undefined()) return m;
  if (of.is_dict())
    if (const Value* v = lookup(of.dict(), name, budget_)) return *v;
  return Undefined(name);
}

Value Builtins::loop_attribute(Namespace* space, std::string_view name) {
  const Loop& l = *space->loop;
  const auto k = static_cast<int64_t>(l.index);
  if (name == "index") return k + 1;
  if (name == "index0") return k;
  if (name == "first") return k == 0;
  if (name == "depth") return l.depth;
  if (name == "depth0") return l.depth - 1;
  auto at = [&](size_t i) { return l.over.is_open() ? l.over.open().at(i) : l.over.list()[i]; };
  if (name == "previtem") return k > 0 ? at(l.index - 1) : Value(Undefined("there is no previous item"));
  if (name == "cycle")
    return Value(Function([k](Arguments& a) {
      if (a.args.empty()) raise("no items for cycling given");
      return a.args[static_cast<size_t>(k) % a.args.size()];
    }));
  if (name == "changed")
    return Value(Function([this, space](Arguments& a) {
      Loop& loop = *space->loop;
      Value now(a.args, true);
      bool same = loop.called && equal(loop.last, now, budget_);
      before_change_(space);
      loop.called = true;
      loop.last = now;
      return Value(!same);
    }));
  // last and nextitem read ahead: the next item, or the end of the list.
  if (name == "last" || name == "nextitem") {
    const size_t n = l.over.is_open() ? l.over.open().size() : l.over.list().size();
    if (l.index + 1 < n) {
      const Value next = at(l.index + 1);
      return name == "last" ? Value(false) : next;
    }
    length(l.over, budget_);
    return name == "last" ? Value(true) : Value(Undefined("there is no next item"));
  }
  if (name == "length") return length(l.over, budget_);
  if (name == "revindex") return length(l.over, budget_) - k;
  if (name == "revindex0") return length(l.over, budget_) - k - 1;
  return Undefined(name);
}

Value Builtins::cycler_attribute(Namespace* space, std::string_view name) {
  const Cycler& c = *space->cycler;
  if (name == "current") return c.items.list()[c.at];
  if (name == "next" || name == "reset")
    return Value(Function([this, space, next = name == "next"](Arguments&) {
      before_change_(space);
      Cycler& cycler = *space->cycler;
      const Value now = cycler.items.list()[cycler.at];
      cycler.at = next ? (cycler.at + 1) % cycler.items.list().size() : 0;
      return next ? now : Value(None{});
    }));
  return Undefined(name);
}

namespace {

// Returns the byte offset of a character; a negative index counts from the end.
size_t string_index(std::string_view s, int64_t index, Budget& budget) {
  size_t at = 0;
  if (index >= 0) {
    for (int64_t i = 0; i < index && at < s.size(); ++i) next_char(s, at);
    budget.chars(at);
    return at;
  }
  at = s.size();
  for (int64_t i = index; i < 0 && at > 0; ++i) do
      --at;
    while (at > 0 && (static_cast<unsigned char>(s[at]) & 0xc0) == 0x80);
  budget.chars(s.size() - at);
  return at;
}

}  // namespace

Value Builtins::item(const Value& of, const Value& key) {
  if (of.is_undefined()) raise("'{}' is undefined", of.undefined_name());
  if (of.is_dict()) {
    if (const Value* v = lookup(of.dict(), key, budget_)) return *v;
  } else if (of.is_list() && key.is_number() && !key.is_float()) {
    int64_t n = static_cast<int64_t>(of.is_open() ? of.open().size() : of.list().size()), i = key.integer();
    if (of.is_open() && i >= 0 && i < n) return of.open().at(static_cast<size_t>(i));
    length(of, budget_);
    if (i < 0) i += n;
    if (i >= 0 && i < n) return of.is_open() ? of.open().at(static_cast<size_t>(i)) : of.list()[static_cast<size_t>(i)];
  } else if (of.is_string() && key.is_number() && !key.is_float()) {
    const std::string& s = of.string();
    int64_t i = key.integer();
    size_t at = string_index(s, i, budget_);
    // There is no character before the first one.
    bool within = i >= 0 || i == -1 || at > 0 || -length(of, budget_) <= i;
    if (at < s.size() && within) {
      size_t end = at;
      next_char(s, end);
      return made_like(of, s.substr(at, end - at));
    }
  }
  if (key.is_string()) {
    Value v = attribute(of, key.string());
    if (!v.is_undefined()) return v;
    return Undefined(key.string());
  }
  return Undefined(key.is_list() || key.is_dict() ? type_name(key) : str(key, budget_));
}

Value Builtins::slice(const Value& of, const Value* begin, const Value* end, const Value* step) {
  if (of.is_undefined()) raise("'{}' is undefined", of.undefined_name());
  if (!of.is_list() && !of.is_string()) raise("'{}' object cannot be sliced", type_name(of));
  auto number = [&](const Value* v, int64_t fallback) {
    if (!v || v->is_none()) return fallback;
    if (!v->is_number() || v->is_float()) raise("slice indices must be integers");
    return v->integer();
  };
  int64_t by = number(step, 1), first = number(begin, 0);
  const bool to_end = !end || end->is_none();
  if (of.is_open() && by == 1 && first >= 0) {
    const OpenList& l = of.open();
    if (to_end) {
      return Value(
          std::make_shared<const OpenList>(l.all, l.offset + static_cast<size_t>(std::min<int64_t>(first, INT32_MAX)), l.reach),
          of.depth());
    }
    if (int64_t last = number(end, 0); last >= 0 && last <= static_cast<int64_t>(l.size())) {
      List part;
      for (int64_t i = first; i < last; ++i) part.push_back(l.at(static_cast<size_t>(i)));
      if (last > 0) l.at(static_cast<size_t>(last) - 1);
      return made(std::move(part));
    }
  }
  if (by == 0) raise("slice step cannot be zero");
  int64_t n = length(of, budget_);
  by = std::clamp<int64_t>(by, -n - 1, n + 1);
  auto clip = [&](int64_t i, int64_t low, int64_t high) { return std::clamp(i < 0 ? (i < -n ? low : i + n) : i, low, high); };
  int64_t from = by > 0 ? clip(first, 0, n) : (begin && !begin->is_none() ? clip(first, -1, n - 1) : n - 1);
  int64_t to = by > 0 ? clip(number(end, n), 0, n) : (!to_end ? clip(number(end, 0), -1, n - 1) : -1);
  if (of.is_string()) {
    const std::string& s = of.string();
    if (by == 1) {
      size_t at = string_index(s, from, budget_);
      return made_like(of, s.substr(at, to > from ? string_index(std::string_view(s).substr(at), to - from, budget_) : 0));
    }
    budget_.chars(4 * s.size());
    budget_.bytes(4 * s.size());
    const std::u32string text = chars(s);
    std::u32string out;
    for (int64_t i = from; by > 0 ? i < to : i > to; i += by) out += text[static_cast<size_t>(i)];
    return made_like(of, utf8(out));
  }
  const List& all = of.list();
  const int64_t count = by > 0 ? (to > from ? (to - from + by - 1) / by : 0) : (from > to ? (from - to - by - 1) / -by : 0);
  budget_.list(static_cast<size_t>(count));
  List list;
  list.reserve(static_cast<size_t>(count));
  for (int64_t i = from; by > 0 ? i < to : i > to; i += by) list.push_back(all[static_cast<size_t>(i)]);
  return Value(std::move(list), of.is_tuple());
}

}  // namespace ravine::jinja
