// Operators, subscripts and slices.
#include <algorithm>
#include <cmath>

#include "data/jinja/builtins.h"

namespace ravine::jinja {

namespace {

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
  budget_.bytes(s.size());
  budget_.step(1 + static_cast<int64_t>(s.size() / 64));
  return Value(std::move(s));
}

Value Builtins::binary(const std::string& op, const Value& a, const Value& b) {
  if (op == "~") return made(str(a, budget_) + str(b, budget_));
  bool numbers = a.is_number() && b.is_number(), real = a.is_float() || b.is_float();
  if (op == "+") {
    if (numbers) return real ? Value(a.number() + b.number()) : Value(add_checked(a.integer(), b.integer()));
    if (a.is_string() && b.is_string()) return made(a.string() + b.string());
    if (a.is_list() && b.is_list() && a.is_tuple() == b.is_tuple()) {
      List l = a.list();
      budget_.step(static_cast<int64_t>(l.size() + b.list().size()));
      budget_.bytes((l.size() + b.list().size()) * sizeof(Value));
      l.insert(l.end(), b.list().begin(), b.list().end());
      return Value(std::move(l), a.is_tuple());
    }
  } else if (op == "*" && ((a.is_string() && b.is_int()) || (a.is_int() && b.is_string()))) {
    const std::string& s = (a.is_string() ? a : b).string();
    int64_t n = std::max<int64_t>(0, (a.is_string() ? b : a).integer());
    if (!s.empty() && n > static_cast<int64_t>((size_t{64} << 20) / s.size())) raise("the template makes too much text");
    std::string out;
    for (int64_t i = 0; i < n && !s.empty(); ++i) out += s;
    return made(std::move(out));
  } else if (op == "*" && ((a.is_list() && b.is_int()) || (a.is_int() && b.is_list()))) {
    const Value& v = a.is_list() ? a : b;
    int64_t n = v.list().empty() ? 0 : std::max<int64_t>(0, (a.is_list() ? b : a).integer());
    if (n > 1'000'000) raise("the template makes too long a list");
    budget_.step(n * static_cast<int64_t>(v.list().size()));
    budget_.bytes(static_cast<size_t>(n) * v.list().size() * sizeof(Value));
    List l;
    for (int64_t i = 0; i < n; ++i) l.insert(l.end(), v.list().begin(), v.list().end());
    return Value(std::move(l), v.is_tuple());
  } else if (op == "%" && a.is_string()) {
    raise("formatting with % is not supported");
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
    if (!real) return b.integer() == -1 ? Value(int64_t{0}) : Value(a.integer() - b.integer() * floor_div(a.integer(), b.integer()));
    double r = std::fmod(a.number(), b.number());
    return r != 0 && (r < 0) != (b.number() < 0) ? r + b.number() : r;
  }
  raise("unknown operator {}", op);
}

Value Builtins::attribute(const Value& of, std::string_view name) {
  if (of.is_undefined()) raise("'{}' is undefined", of.undefined_name());
  if (of.is_namespace()) {
    Value* v = of.space()->find(name);
    return v ? *v : Value(Undefined{std::string(name)});
  }
  Value m = method(of, name);
  if (!m.is_undefined()) return m;
  if (of.is_dict())
    if (const Value* v = lookup(of.dict(), Value(name))) return *v;
  return Undefined{std::string(name)};
}

Value Builtins::item(const Value& of, const Value& key) {
  if (of.is_undefined()) raise("'{}' is undefined", of.undefined_name());
  if (of.is_dict()) {
    budget_.step(static_cast<int64_t>(of.dict().size() / 8));
    if (const Value* v = lookup(of.dict(), key)) return *v;
  } else if (of.is_list() && key.is_number() && !key.is_float()) {
    int64_t n = static_cast<int64_t>(of.list().size()), i = key.integer();
    if (i < 0) i += n;
    if (i >= 0 && i < n) return of.list()[static_cast<size_t>(i)];
  } else if (of.is_string() && key.is_number() && !key.is_float()) {
    std::u32string s = chars(of.string());
    budget_.step(static_cast<int64_t>(s.size() / 16));
    int64_t n = static_cast<int64_t>(s.size()), i = key.integer();
    if (i < 0) i += n;
    if (i >= 0 && i < n) return made(utf8(std::u32string_view(s).substr(static_cast<size_t>(i), 1)));
  }
  if (key.is_string()) {
    Value v = attribute(of, key.string());
    if (!v.is_undefined()) return v;
  }
  return Undefined{str(key, budget_)};
}

Value Builtins::slice(const Value& of, const Value* begin, const Value* end, const Value* step) {
  if (of.is_undefined()) raise("'{}' is undefined", of.undefined_name());
  if (!of.is_list() && !of.is_string()) raise("'{}' object cannot be sliced", type_name(of));
  auto number = [&](const Value* v, int64_t fallback) {
    if (!v || v->is_none()) return fallback;
    if (!v->is_number() || v->is_float()) raise("slice indices must be integers");
    return v->integer();
  };
  std::u32string text = of.is_string() ? chars(of.string()) : std::u32string();
  int64_t n = of.is_string() ? static_cast<int64_t>(text.size()) : static_cast<int64_t>(of.list().size());
  budget_.step(n / 8);
  int64_t by = number(step, 1);
  if (by == 0) raise("slice step cannot be zero");
  by = std::clamp<int64_t>(by, -n - 1, n + 1);
  auto clip = [&](int64_t i, int64_t low, int64_t high) { return std::clamp(i < 0 ? (i < -n ? low : i + n) : i, low, high); };
  int64_t from = by > 0 ? clip(number(begin, 0), 0, n) : (begin && !begin->is_none() ? clip(number(begin, 0), -1, n - 1) : n - 1);
  int64_t to = by > 0 ? clip(number(end, n), 0, n) : (end && !end->is_none() ? clip(number(end, 0), -1, n - 1) : -1);
  std::u32string out;
  List list;
  for (int64_t i = from; by > 0 ? i < to : i > to; i += by) {
    if (of.is_string())
      out += text[static_cast<size_t>(i)];
    else
      list.push_back(of.list()[static_cast<size_t>(i)]);
  }
  if (of.is_string()) return made(utf8(out));
  budget_.bytes(list.size() * sizeof(Value));
  return Value(std::move(list), of.is_tuple());
}

}  // namespace ravine::jinja
