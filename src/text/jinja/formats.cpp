// Python's two notations to format values: 'a %s' % values, and 'a {}'.format(values).
#include <algorithm>
#include <cmath>

#include "text/jinja/builtins.h"
#include "text/unicode/unicode.h"

namespace ravine::jinja {

namespace {

constexpr int64_t kWidest = 100'000, kMostDigits = 1000;

// The format between the '%' or ':' and the letter of a conversion.
struct Form {
  std::string fill = " ";
  char align = 0, sign = '-', group = 0, type = 0;  // group: ',' or '_' between digits
  bool other = false, zero = false;                 // '#', '0'
  int64_t width = 0, precision = -1;
};

int64_t small_number(std::string_view s, size_t& at, int64_t most) {
  int64_t n = 0;
  for (; at < s.size() && s[at] >= '0' && s[at] <= '9'; ++at) n = std::min(n * 10 + (s[at] - '0'), most + 1);
  if (n > most) raise("a format asks for more than {} characters", most);
  return n;
}

// Pads a text to the width; with '=' the padding follows the sign.
std::string padded(std::string text, const Form& f, char align, Budget& budget) {
  const int64_t missing = f.width - count_chars(text, budget);
  if (missing <= 0) return text;
  budget.bytes(static_cast<size_t>(missing) * f.fill.size());
  auto filling = [&](int64_t n) {
    std::string s;
    for (int64_t i = 0; i < n; ++i) s += f.fill;
    return s;
  };
  if (align == '^') return filling(missing / 2) + text + filling(missing - missing / 2);
  if (align == '<') return text + filling(missing);
  size_t sign = 0;
  if (align == '=') sign = text.find_first_not_of("+- ") == std::string::npos ? text.size() : text.find_first_not_of("+- ");
  if (align == '=' && text.size() > sign + 1 && text[sign] == '0' && std::isalpha(static_cast<unsigned char>(text[sign + 1])) &&
      f.other)
    sign += 2;  // 0x
  return text.substr(0, sign) + filling(missing) + text.substr(sign);
}

std::string digits_of(uint64_t n, int base, bool large) {
  const std::string_view digits = large ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string s;
  do s += digits[n % static_cast<uint64_t>(base)];
  while ((n /= static_cast<uint64_t>(base)) > 0);
  std::reverse(s.begin(), s.end());
  return s;
}

// Groups the digits before the decimal point. If the format requires it, zeros are added before them up to the width.
std::string grouped_digits(std::string digits, const Form& f, int64_t around) {
  if (!f.group) return digits;
  const size_t each = f.group == '_' && (f.type == 'x' || f.type == 'X' || f.type == 'b' || f.type == 'o') ? 4 : 3;
  auto with = [&](const std::string& all) {
    std::string s;
    for (size_t i = 0; i < all.size(); ++i) {
      if (i && (all.size() - i) % each == 0) s += f.group;
      s += all[i];
    }
    return s;
  };
  std::string s = with(digits);
  while (f.align == '=' && f.fill == "0" && static_cast<int64_t>(s.size()) + around < f.width) s = with(digits = '0' + digits);
  return s;
}

std::string sign_of(bool negative, const Form& f) { return negative ? "-" : f.sign == '-' ? "" : std::string(1, f.sign); }

std::string integer_text(int64_t v, const Form& f) {
  const int base = f.type == 'x' || f.type == 'X' ? 16 : f.type == 'o' ? 8 : f.type == 'b' ? 2 : 10;
  const uint64_t size = v < 0 ? uint64_t{0} - static_cast<uint64_t>(v) : static_cast<uint64_t>(v);
  const std::string sign = sign_of(v < 0, f), prefix = f.other && base != 10 ? std::string("0") + f.type : "";
  std::string digits = digits_of(size, base, f.type == 'X');
  while (f.precision > static_cast<int64_t>(digits.size())) digits.insert(digits.begin(), '0');
  return sign + prefix + grouped_digits(digits, f, static_cast<int64_t>(sign.size() + prefix.size()));
}

// type: one of e E f F g G %, or 0: as repr() with at most `precision` digits.
std::string real_text(double v, const Form& f, Budget& budget) {
  const bool percent = f.type == '%', large = f.type == 'E' || f.type == 'F' || f.type == 'G';
  if (percent) v *= 100;
  const double size = std::signbit(v) ? -v : v;
  const char kind = static_cast<char>(f.type ? f.type | 0x20 : 0);
  const int precision = static_cast<int>(f.precision < 0 ? 6 : f.precision);
  std::string s;
  if (!std::isfinite(v)) {
    s = std::isnan(v) ? "nan" : "inf";
  } else if (kind == 'e') {
    s = f.other ? fmt::format("{:#.{}e}", size, precision) : fmt::format("{:.{}e}", size, precision);
  } else if (kind == 'f' || percent) {
    s = f.other ? fmt::format("{:#.{}f}", size, precision) : fmt::format("{:.{}f}", size, precision);
  } else if (kind == 'g' || kind == 'n') {
    s = f.other ? fmt::format("{:#.{}g}", size, std::max(precision, 1)) : fmt::format("{:.{}g}", size, std::max(precision, 1));
  } else if (f.precision < 0) {
    s = str(Value(size), budget);
  } else {  // like 'g' with a digit after the decimal point, and an exponent one digit earlier
    const int p = std::max(precision, 1);
    s = fmt::format("{:.{}e}", size, p - 1);
    const int exponent = std::atoi(s.c_str() + s.find('e') + 1);
    if (exponent >= -4 && exponent < p - 1) {
      s = fmt::format("{:.{}g}", size, p);
      if (s.find('.') == std::string::npos) s += ".0";
    } else {
      std::string mantissa = s.substr(0, s.find('e'));
      if (mantissa.find('.') != std::string::npos) {
        while (mantissa.ends_with('0')) mantissa.pop_back();
        if (mantissa.ends_with('.')) mantissa.pop_back();
      }
      s = mantissa + s.substr(s.find('e'));
    }
  }
  if (large)
    for (char& c : s) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (percent) s += '%';
  const std::string sign = sign_of(std::signbit(v) && !std::isnan(v), f);
  const size_t whole = std::min(s.find_first_not_of("0123456789"), s.size());
  return sign + grouped_digits(s.substr(0, whole), f, static_cast<int64_t>(sign.size() + s.size() - whole)) + s.substr(whole);
}

std::string first_chars(std::string_view s, int64_t n) {
  size_t at = 0;
  for (int64_t i = 0; i < n && at < s.size(); ++i) next_char(s, at);
  return std::string(s.substr(0, at));
}

// Formats like repr(), with escapes for characters beyond ASCII.
std::string ascii_text(const std::string& s) {
  std::string out;
  for (size_t at = 0; at < s.size();) {
    const char32_t c = next_char(s, at);
    const auto n = static_cast<uint32_t>(c);
    out += n < 0x80      ? std::string(1, static_cast<char>(c))
           : n < 0x100   ? fmt::format("\\x{:02x}", n)
           : n < 0x10000 ? fmt::format("\\u{:04x}", n)
                         : fmt::format("\\U{:08x}", n);
  }
  return out;
}

std::string character(const Value& v) {
  if (!v.is_number() || v.is_float() || v.integer() < 0 || v.integer() > 0x10ffff) raise("%c needs a character or its number");
  return utf8(std::u32string(1, static_cast<char32_t>(v.integer())));
}

int64_t whole_number(const Value& v, char type) {
  if (!v.is_number()) raise("%{} format: a number is required, not {}", type, type_name(v));
  if (v.is_float() && (type == 'x' || type == 'X' || type == 'o')) raise("%{} format: an integer is required, not float", type);
  if (v.is_float() && !(std::abs(v.number()) < 9e18)) raise("a number is too large");
  return v.is_float() ? static_cast<int64_t>(v.number()) : v.integer();
}

}  // namespace

Value Builtins::percent_format(const Value& of, const Value& values) {
  const std::string& s = of.string();
  const bool several = values.is_tuple();
  size_t used = 0;
  bool by_name = false;
  auto next = [&]() -> Value {
    if (several ? used >= values.list().size() : used > 0) raise("not enough arguments for format string");
    ++used;
    return several ? values.list()[used - 1] : values;
  };
  auto star = [&](int64_t most) {
    const Value v = next();
    if (!v.is_number() || v.is_float()) raise("* wants int");
    if (std::abs(v.number()) > static_cast<double>(most)) raise("a format asks for more than {} characters", most);
    return v.integer();
  };
  std::string out;
  for (size_t at = 0; at < s.size();) {
    const size_t sign = std::min(s.find('%', at), s.size());
    append(out, std::string_view(s).substr(at, sign - at), budget_);
    at = sign + 1;
    if (sign == s.size()) break;
    budget_.step();
    std::optional<Value> value;
    if (at < s.size() && s[at] == '(') {
      const size_t end = s.find(')', at);
      if (end == std::string::npos) raise("incomplete format key");
      if (!values.is_dict()) raise("format requires a mapping");
      const std::string key = s.substr(at + 1, end - at - 1);
      const Value* known = lookup(values.dict(), std::string_view(key), budget_);
      if (!known) raise("the format names '{}', which there is not", shown(key));
      value = *known;
      by_name = true;
      at = end + 1;
    }
    Form f;
    for (; at < s.size() && std::string_view("-+ #0").find(s[at]) != std::string_view::npos; ++at) {
      if (s[at] == '-') f.align = '<';
      if (s[at] == '+' || (s[at] == ' ' && f.sign != '+')) f.sign = s[at];
      f.other |= s[at] == '#';
      f.zero |= s[at] == '0';
    }
    if (at < s.size() && s[at] == '*') {
      f.width = star(kWidest);
      if (f.width < 0) f.align = '<', f.width = -f.width;
      ++at;
    } else {
      f.width = small_number(s, at, kWidest);
    }
    if (at < s.size() && s[at] == '.') {
      ++at;
      if (at < s.size() && s[at] == '*')
        f.precision = std::max<int64_t>(star(kMostDigits), 0), ++at;
      else
        f.precision = small_number(s, at, kMostDigits);
    }
    while (at < s.size() && (s[at] == 'h' || s[at] == 'l' || s[at] == 'L')) ++at;
    if (at >= s.size()) raise("incomplete format");
    f.type = s[at++];
    if (f.type == '%') {
      append(out, "%", budget_);
      continue;
    }
    if (!value) value = next();
    std::string text;
    bool number = false;
    if (f.type == 's' || f.type == 'r' || f.type == 'a') {
      if (f.type == 's')
        text = str(*value, budget_);
      else
        append_repr(text, *value, budget_, false);
      if (f.type == 'a') text = ascii_text(text);
      if (of.is_markup() && !(f.type == 's' && value->is_markup())) text = escaped(text, budget_);
      if (f.precision >= 0) text = first_chars(text, f.precision);
    } else if (f.type == 'c') {
      text = value->is_string() && count_chars(value->string(), budget_) == 1 ? value->string() : character(*value);
    } else if (f.type == 'd' || f.type == 'i' || f.type == 'u' || f.type == 'x' || f.type == 'X' || f.type == 'o') {
      text = integer_text(whole_number(*value, f.type), f);
      number = true;
    } else if (std::string_view("eEfFgG").find(f.type) != std::string_view::npos) {
      if (!value->is_number()) raise("must be real number, not {}", type_name(*value));
      text = real_text(value->number(), f, budget_);
      number = true;
    } else {
      raise("unsupported format character '{}'", f.type);
    }
    if (number && f.zero && f.align != '<') f.fill = "0", f.align = '=';
    append(out, padded(std::move(text), f, f.align ? f.align : '>', budget_), budget_);
  }
  if (!by_name && !values.is_dict() && used < (several ? values.list().size() : 1))
    raise("not all arguments converted during string formatting");
  return made_like(of, std::move(out));
}

namespace {

// Parses [[fill]align][sign][#][0][width][group][.precision][type].
Form read_spec(std::string_view s) {
  Form f;
  auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  size_t at = 0, behind = 0;
  if (!s.empty()) next_char(s, behind);
  if (behind < s.size() && is_align(s[behind])) {
    f.fill = s.substr(0, behind);
    f.align = s[behind];
    at = behind + 1;
  } else if (!s.empty() && is_align(s[0])) {
    f.align = s[at++];
  }
  auto skip = [&](char c) { return at < s.size() && s[at] == c ? (++at, true) : false; };
  if (at < s.size() && (s[at] == '+' || s[at] == '-' || s[at] == ' ')) f.sign = s[at++];
  f.other = skip('#');
  f.zero = skip('0');
  f.width = small_number(s, at, kWidest);
  if (at < s.size() && (s[at] == ',' || s[at] == '_')) f.group = s[at++];
  if (skip('.')) {
    if (at >= s.size() || s[at] < '0' || s[at] > '9') raise("Format specifier missing precision");
    f.precision = small_number(s, at, kMostDigits);
  }
  if (at < s.size()) f.type = s[at++];
  if (at < s.size()) raise("Invalid format specifier '{}'", shown(s));
  return f;
}

std::string formatted(const Value& v, std::string_view spec, Budget& budget) {
  if (spec.empty()) return str(v, budget);
  Form f = read_spec(spec);
  const bool number = v.is_number();
  if (!number && !v.is_string()) raise("unsupported format string passed to {}.__format__", type_name(v));
  if (f.zero && !f.align && f.fill == " ") {
    f.fill = "0";
    if (number) f.align = '=';
  } else if (f.zero && f.fill == " ") {
    f.fill = "0";
  }
  if (v.is_string()) {
    if (f.type && f.type != 's') raise("Unknown format code '{}' for object of type 'str'", f.type);
    if (f.align == '=' || f.sign != '-' || f.other || f.group) raise("Invalid format specifier '{}' for a text", shown(spec));
    std::string text = f.precision < 0 ? v.string() : first_chars(v.string(), f.precision);
    return padded(std::move(text), f, f.align ? f.align : '<', budget);
  }
  std::string text;
  const bool real = f.type && std::string_view("eEfFgG%").find(f.type) != std::string_view::npos;
  if (v.is_float() || real) {
    if (f.type && !real && f.type != 'n') raise("Unknown format code '{}' for object of type 'float'", f.type);
    text = real_text(v.number(), f, budget);
  } else if (f.type == 'c') {
    text = character(v);
  } else {
    if (f.type && std::string_view("bdonxX").find(f.type) == std::string_view::npos)
      raise("Unknown format code '{}' for object of type 'int'", f.type);
    if (f.precision >= 0) raise("Precision not allowed in integer format specifier");
    text = integer_text(v.integer(), f);
  }
  return padded(std::move(text), f, f.align ? f.align : '>', budget);
}

// Returns the end of the field that begins after a '{'. The field may contain [..], and braces only in its format.
size_t field_end(std::string_view s, size_t at) {
  int open = 1;
  for (; at < s.size(); ++at) {
    if (s[at] == '[' && open == 1) {
      at = s.find(']', at);
      if (at == std::string_view::npos) break;
    }
    open += s[at] == '{' ? 1 : s[at] == '}' ? -1 : 0;
    if (open == 0) return at;
  }
  raise("expected '}}' before end of string");
}

}  // namespace

Value Builtins::brace_format(const Value& of, const Arguments& values) {
  size_t automatic = 0;
  bool counted = false, numbered = false;
  // Returns the value of name.attribute[item]...
  auto value_of = [&](std::string_view field) {
    size_t at = std::min(field.find_first_of(".["), field.size());
    const std::string_view name = field.substr(0, at);
    Value v;
    if (name.empty() || name.find_first_not_of("0123456789") == std::string_view::npos) {
      (name.empty() ? counted : numbered) = true;
      if (counted && numbered) raise("cannot mix numbered fields of a format with fields without a number");
      size_t digits = 0;
      const size_t i = name.empty() ? automatic++ : static_cast<size_t>(small_number(name, digits, kWidest));
      if (i >= values.args.size()) raise("the format has a field for value {}, there are {}", i + 1, values.args.size());
      v = values.args[i];
    } else {
      const auto named = std::find_if(values.named.begin(), values.named.end(), [&](const auto& e) { return e.first == name; });
      if (named == values.named.end()) raise("the format names '{}', which there is not", shown(name));
      v = named->second;
    }
    while (at < field.size()) {
      budget_.step();
      if (field[at] == '.') {
        const size_t end = std::min(field.find_first_of(".[", at + 1), field.size());
        v = attribute(v, field.substr(at + 1, end - at - 1));
        at = end;
      } else {
        const size_t end = field.find(']', at);
        if (field[at] != '[' || end == std::string_view::npos) raise("Missing ']' in format string");
        const std::string_view key = field.substr(at + 1, end - at - 1);
        size_t digits = 0;
        const bool index = !key.empty() && key.find_first_not_of("0123456789") == std::string_view::npos;
        v = item(v, index ? Value(small_number(key, digits, INT32_MAX)) : Value(key));
        at = end + 1;
      }
    }
    return v;
  };
  auto written = [&](auto&& self, std::string_view s, int depth) -> std::string {
    if (depth > 1) raise("Max string recursion exceeded");
    std::string out;
    for (size_t at = 0; at < s.size();) {
      const size_t brace = std::min(s.find_first_of("{}", at), s.size());
      append(out, s.substr(at, brace - at), budget_);
      at = brace + 1;
      if (brace == s.size()) break;
      budget_.step();
      if (at < s.size() && s[at] == s[brace]) {
        append(out, s.substr(at, 1), budget_);
        ++at;
        continue;
      }
      if (s[brace] == '}') raise("Single '}}' encountered in format string");
      const size_t end = field_end(s, at);
      const std::string_view field = s.substr(at, end - at);
      at = end + 1;
      size_t stop = 0;  // end of the name
      while (stop < field.size() && field[stop] != ':' && field[stop] != '!')
        stop = field[stop] == '[' ? std::min(field.find(']', stop), field.size()) : stop + 1;
      Value v = value_of(field.substr(0, stop));
      std::string_view rest = field.substr(stop);
      if (rest.starts_with('!')) {
        const char how = rest.size() > 1 ? rest[1] : 0;
        std::string text;
        if (how == 's')
          text = str(v, budget_);
        else if (how == 'r' || how == 'a')
          append_repr(text, v, budget_, false);
        else
          raise("Unknown conversion in a format: it is !s, !r or !a");
        v = made(how == 'a' ? ascii_text(text) : std::move(text));
        rest.remove_prefix(2);
        if (!rest.empty() && !rest.starts_with(':')) raise("expected ':' after conversion specifier");
      }
      const std::string spec = rest.empty() ? "" : self(self, rest.substr(1), depth + 1);
      if (v.is_markup() && of.is_markup() && !spec.empty()) raise("a Markup takes no form of its own here");
      std::string text = formatted(v, spec, budget_);
      append(out, of.is_markup() && !v.is_markup() && depth == 0 ? escaped(text, budget_) : text, budget_);
    }
    return out;
  };
  return made_like(of, written(written, of.string(), 0));
}

}  // namespace ravine::jinja
