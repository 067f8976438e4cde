#include "text/jinja/lexer.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "text/jinja/value.h"
#include "text/unicode/unicode.h"

namespace ravine::jinja {

namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c) || static_cast<unsigned char>(c) >= 0x80;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : s_(std::move(source)) {}

  std::vector<Token> run() {
    while (at_ < s_.size()) piece();
    add(TokenKind::end, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void wrong(const std::string& what) const { raise("line {}: {}", line_, what); }
  char peek(size_t ahead = 0) const { return at_ + ahead < s_.size() ? s_[at_ + ahead] : '\0'; }
  bool at(std::string_view t) const { return std::string_view(s_).substr(at_).starts_with(t); }
  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  void advance(size_t to) {
    line_ +=
        static_cast<int>(std::count(s_.begin() + static_cast<ptrdiff_t>(at_), s_.begin() + static_cast<ptrdiff_t>(to), '\n'));
    at_ = to;
  }

  // Reads the text up to the next tag, and the tag.
  void piece() {
    size_t tag = at_;
    for (; tag < s_.size(); ++tag)
      if (s_[tag] == '{' && tag + 1 < s_.size() && (s_[tag + 1] == '%' || s_[tag + 1] == '{' || s_[tag + 1] == '#')) break;
    std::string text = s_.substr(at_, tag - at_);
    if (tag == s_.size()) {
      advance(tag);
      if (!text.empty()) add(TokenKind::text, text);
      return;
    }
    char kind = s_[tag + 1];
    char sign = tag + 2 < s_.size() ? s_[tag + 2] : '\0';
    if (sign == '-') {
      while (!text.empty() && is_space(text.back())) text.pop_back();
    } else if (sign != '+' && kind != '{') {  // lstrip_blocks: white space between the start of the line and the tag
      size_t start = text.rfind('\n');
      bool from_line_start = start != std::string::npos || line_starting_;
      start = start == std::string::npos ? 0 : start + 1;
      if (from_line_start && std::all_of(text.begin() + static_cast<ptrdiff_t>(start), text.end(), is_space))
        text.resize(start);
    }
    advance(tag);
    if (!text.empty()) add(TokenKind::text, text);
    size_t after = tag + 2 + (sign == '-' || sign == '+' ? 1 : 0);
    if (kind == '#') return comment(after);
    if (kind == '%' && raw(after)) return;
    advance(after);
    add(kind == '%' ? TokenKind::block_begin : TokenKind::variable_begin, "");
    inside(kind == '%');
  }

  // Ends a tag. '-' removes all white space after it; trim_blocks removes one line end.
  void close(bool minus, bool plus, bool block) {
    size_t to = at_;
    if (minus)
      while (to < s_.size() && is_space(s_[to])) ++to;
    else if (block && !plus && to < s_.size() && s_[to] == '\n')
      ++to;
    line_starting_ = to > 0 && s_[to - 1] == '\n';
    advance(to);
  }

  void comment(size_t from) {
    size_t end = s_.find("#}", from);
    if (end == std::string::npos) wrong("a comment does not end");
    bool minus = end > from && s_[end - 1] == '-', plus = end > from && s_[end - 1] == '+';
    advance(end + 2);
    close(minus, plus, true);
  }

  // Reads {% raw %} .. {% endraw %}: text that is kept unchanged.
  bool raw(size_t from) {
    size_t i = from;
    auto skip = [&] {
      while (i < s_.size() && is_space(s_[i])) ++i;
    };
    auto closing = [&](bool& minus, bool& plus) {
      skip();
      minus = i < s_.size() && s_[i] == '-';
      plus = i < s_.size() && s_[i] == '+';
      if (minus || plus) ++i;
      if (s_.compare(i, 2, "%}") != 0) return false;
      i += 2;
      return true;
    };
    bool minus = false, plus = false;
    skip();
    if (s_.compare(i, 3, "raw") != 0) return false;
    i += 3;
    if (!closing(minus, plus)) return false;
    advance(i);
    close(minus, plus, false);  // trim_blocks keeps the line end here
    size_t begin = at_;
    for (size_t end = begin; (end = s_.find("{%", end)) != std::string::npos; end += 2) {
      i = end + 2;
      bool strip = i < s_.size() && s_[i] == '-';
      if (strip || (i < s_.size() && s_[i] == '+')) ++i;
      skip();
      if (s_.compare(i, 6, "endraw") != 0) continue;
      i += 6;
      if (!closing(minus, plus)) continue;
      std::string text = s_.substr(begin, end - begin);
      if (strip) {
        while (!text.empty() && is_space(text.back())) text.pop_back();
      } else {
        size_t start = text.rfind('\n');
        start = start == std::string::npos ? text.size() : start + 1;
        if (std::all_of(text.begin() + static_cast<ptrdiff_t>(start), text.end(), is_space)) text.resize(start);
      }
      if (!text.empty()) add(TokenKind::text, text);
      advance(i);
      close(minus, plus, true);
      return true;
    }
    wrong("raw without endraw");
  }

  // Reads the contents of a tag up to its end. An end inside brackets does not count.
  void inside(bool block) {
    std::string_view end = block ? "%}" : "}}";
    std::string open;
    for (;;) {
      if (at_ >= s_.size()) wrong("a tag does not end");
      char c = s_[at_];
      if (is_space(c)) {
        advance(at_ + 1);
        continue;
      }
      if (open.empty()) {
        size_t sign = (c == '-' || c == '+') && std::string_view(s_).substr(at_ + 1).starts_with(end) ? 1 : 0;
        if (sign || at(end)) {
          add(block ? TokenKind::block_end : TokenKind::variable_end, "");
          advance(at_ + sign + 2);
          return close(sign && c == '-', sign && c == '+', block);
        }
      }
      if (c == '"' || c == '\'')
        text(c);
      else if (is_digit(c))
        number();
      else if (is_name(c))
        name();
      else
        op(open);
    }
  }

  void name() {
    size_t end = at_;
    while (end < s_.size() && is_name(s_[end])) ++end;
    add(TokenKind::name, s_.substr(at_, end - at_));
    advance(end);
  }

  // Reads 0x1f, 0o17 or 0b11 as decimal digits.
  bool based_number() {
    const char kind = static_cast<char>(peek(1) | 0x20);
    const int base = peek() != '0' ? 0 : kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
    if (base == 0) return false;
    size_t end = at_ + 2;
    while (end < s_.size() && (s_[end] == '_' || std::isxdigit(static_cast<unsigned char>(s_[end])))) ++end;
    std::string digits = s_.substr(at_ + 2, end - at_ - 2);
    std::erase(digits, '_');
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (error == std::errc::result_out_of_range) wrong("a number is too large");
    if (error != std::errc{} || stop != digits.data() + digits.size()) wrong("a number has a digit that its base has not");
    add(TokenKind::integer, std::to_string(value));
    advance(end);
    return true;
  }

  void number() {
    if (based_number()) return;
    size_t end = at_;
    bool real = false;
    auto digits = [&] {
      while (end < s_.size() && (is_digit(s_[end]) || s_[end] == '_')) ++end;
    };
    digits();
    if (end + 1 < s_.size() && s_[end] == '.' && is_digit(s_[end + 1])) {
      real = true;
      ++end;
      digits();
    }
    if (end < s_.size() && (s_[end] == 'e' || s_[end] == 'E')) {
      size_t mark = end++;
      if (end < s_.size() && (s_[end] == '+' || s_[end] == '-')) ++end;
      if (end < s_.size() && is_digit(s_[end])) {
        real = true;
        digits();
      } else {
        end = mark;
      }
    }
    std::string t = s_.substr(at_, end - at_);
    std::erase(t, '_');
    if (!real && t[0] == '0' && t.find_first_not_of('0') != std::string::npos) wrong("a whole number does not begin with 0");
    add(real ? TokenKind::number : TokenKind::integer, t);
    advance(end);
  }

  void text(char quote) {
    std::string value;
    size_t i = at_ + 1;
    auto hex = [&](size_t n) {
      char32_t v = 0;
      for (size_t k = 0; k < n; ++k, ++i) {
        char c = i < s_.size() ? s_[i] : '\0';
        int d = is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (d < 0) wrong("a broken escape in a string");
        v = v * 16 + static_cast<char32_t>(d);
      }
      if (v > 0x10ffff || (v >= 0xd800 && v <= 0xdfff)) wrong("an escape that is no character");
      append_utf8(value, v);
    };
    auto named = [&] {  // \N{BULLET}
      const size_t end = s_.find('}', i);
      if (i >= s_.size() || s_[i] != '{' || end == std::string::npos) wrong("a broken escape in a string");
      const std::string name = s_.substr(i + 1, end - i - 1);
      UChar32 c = -1;
      for (const UCharNameChoice kind : {U_UNICODE_CHAR_NAME, U_CHAR_NAME_ALIAS}) {
        UErrorCode error = U_ZERO_ERROR;
        if (const UChar32 found = u_charFromName(kind, name.c_str(), &error); U_SUCCESS(error) && c < 0) c = found;
      }
      if (c < 0) wrong(fmt::format("no character has the name '{}'", shown(name)));
      append_utf8(value, static_cast<char32_t>(c));
      i = end;
    };
    for (;; ++i) {
      if (i >= s_.size()) wrong("a string does not end");
      if (s_[i] == quote) break;
      if (s_[i] != '\\') {
        value += s_[i];
        continue;
      }
      if (++i >= s_.size()) wrong("a string does not end");
      switch (s_[i]) {
        case 'n':
          value += '\n';
          break;
        case 't':
          value += '\t';
          break;
        case 'r':
          value += '\r';
          break;
        case 'b':
          value += '\b';
          break;
        case 'f':
          value += '\f';
          break;
        case 'v':
          value += '\v';
          break;
        case 'a':
          value += '\a';
          break;
        case '0':
          value += '\0';
          break;
        case '\n':
          break;
        case '\\':
        case '\'':
        case '"':
          value += s_[i];
          break;
        case 'x':
          ++i, hex(2), --i;
          break;
        case 'u':
          ++i, hex(4), --i;
          break;
        case 'U':
          ++i, hex(8), --i;
          break;
        case 'N':
          ++i, named();
          break;
        default:
          value += '\\', value += s_[i];
      }
    }
    add(TokenKind::string, value);
    advance(i + 1);
  }

  void op(std::string& open) {
    for (std::string_view two : {"//", "**", "==", "!=", "<=", ">="})
      if (at(two)) {
        add(TokenKind::op, std::string(two));
        advance(at_ + 2);
        return;
      }
    char c = s_[at_];
    if (std::string_view("+-*/%~()[]{}.,:|=<>").find(c) == std::string_view::npos) wrong(fmt::format("unexpected '{}'", c));
    if (c == '(' || c == '[' || c == '{') {
      open += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) wrong(fmt::format("unexpected '{}'", c));
      open.pop_back();
    }
    add(TokenKind::op, std::string(1, c));
    advance(at_ + 1);
  }

  std::string s_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> lex(std::string_view source) {
  std::string s;  // line ends become '\n'; the last one is removed
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      s += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      s += source[i];
    }
  }
  if (s.ends_with('\n')) s.pop_back();
  return Lexer(std::move(s)).run();
}

}  // namespace ravine::jinja
