// Filters of numbers: int, float, abs, round, filesizeformat.
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

// Returns the text of a number without white space around it; counts its length in the budget.
std::string_view number_text(const Value& v, Budget& budget) {
  budget.chars(v.string().size());
  return strip_right(strip_left(v.string()));
}

// Removes '_' between the digits of a number in Python's notation; false if '_' is misplaced.
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
  // inf, or next to 0
  if (error == std::errc::result_out_of_range) return std::strtod(std::string(rest).c_str(), nullptr);
  if (error != std::errc{}) return std::nullopt;
  return d;
}

// Python's int(text, base).
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
  if (minus) s.insert(s.begin(), '-');
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
  const int64_t digits = std::clamp<int64_t>(precision.integer(), -308, 400);  // further digits are beyond a double
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
  // Rounds the number itself, as Python does: its product with a power of ten may be a tie although the number is not.
  const std::string text = fmt::format("{:.{}f}", v.number(), static_cast<int>(std::min<int64_t>(digits, 340)));
  double r = 0;
  std::from_chars(text.data(), text.data() + text.size(), r);
  return r;
}

std::string file_size(double bytes, bool binary) {
  const double base = binary ? 1024 : 1000;
  if (!std::isfinite(bytes)) raise("filesizeformat needs a finite number");
  if (bytes == 1) return "1 Byte";
  if (bytes < base) return fmt::format("{:.0f} Bytes", std::trunc(bytes) + 0.0);  // without the sign of 0
  long double unit = base * base;                                                 // 10^24 is not a double
  const char* letter = "kMGTPEZY";
  for (; letter[1] && bytes >= unit; ++letter) unit *= base;
  return fmt::format("{:.1f} {}{}", base * bytes / static_cast<double>(unit), *letter == 'k' && binary ? 'K' : *letter,
                     binary ? "iB" : "B");
}

}  // namespace

Value Builtins::number_filter(const std::string& name, Arguments& a, bool& known) {
  known = true;
  const Value v = a.get(0, "");
  if (name == "int") return to_int(v, a.get(1, "default", Value(int64_t{0})), a.get(2, "base", Value(int64_t{10})), budget_);
  if (name == "float") return to_float(v, a.get(1, "default", Value(0.0)), budget_);
  if (name == "abs") {
    if (!v.is_number()) raise("abs needs a number");
    if (v.is_float()) return std::abs(v.number());
    return v.integer() < 0 ? binary("-", Value(int64_t{0}), v) : v;
  }
  if (name == "round") return rounded(v, a.get(1, "precision", Value(int64_t{0})), a.get(2, "method", Value("common")));
  if (name == "filesizeformat") {
    const Value bytes = to_float(v, None{}, budget_);
    if (bytes.is_none()) raise("filesizeformat needs a number");
    return made(file_size(bytes.number(), truth(a.get(1, "binary", false))));
  }
  known = false;
  return {};
}

}  // namespace ravine::jinja
