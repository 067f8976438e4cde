// Evaluates $(( )) of bash, by precedence climbing.
#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "dialects/shell_value.h"

namespace ravine {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct Operator {
  std::string_view text;
  int rank;
};
// Longer operators come first. A higher rank binds closer.
constexpr Operator kOperators[] = {{"**", 11}, {"<<", 8}, {">>", 8}, {"<=", 7}, {">=", 7}, {"==", 6}, {"!=", 6},
                                   {"&&", 2},  {"||", 1}, {"+", 9},  {"-", 9},  {"*", 10}, {"/", 10}, {"%", 10},
                                   {"<", 7},   {">", 7},  {"&", 5},  {"^", 4},  {"|", 3}};

class Arithmetic {
 public:
  Arithmetic(std::string_view text, ShellVariables& variables, int line) : text_(text), variables_(variables), line_(line) {}

  ExpandedWord value(int depth) {
    int64_t v = 0;
    blanks();
    if (at_ < text_.size()) {
      do v = choice(depth);
      while (takes(","));
    }
    blanks();
    if (at_ < text_.size()) note(fmt::format("'{}' is not understood in $(( ))", text_.substr(at_, 20)));
    return {problem_ ? "" : std::to_string(v), problem_};
  }

 private:
  void note(const std::string& why, int line = 0) {
    if (!problem_) problem_ = {why, line > 0 ? line : line_};
    at_ = text_.size();
  }
  void blanks() {
    while (at_ < text_.size() && (std::string_view(" \t\r\n\"").find(text_[at_]) != std::string_view::npos)) ++at_;
  }
  bool takes(std::string_view sign) {
    blanks();
    if (!text_.substr(at_).starts_with(sign)) return false;
    at_ += sign.size();
    return true;
  }

  int64_t choice(int depth) {
    const int64_t condition = binary(depth, 1);
    if (!takes("?")) return condition;
    const int64_t yes = choice(depth + 1);
    if (!takes(":")) note("? without : in $(( ))");
    const int64_t no = choice(depth + 1);
    return condition ? yes : no;
  }

  int64_t binary(int depth, int lowest) {
    if (depth > kDeepestShell) return note("brackets stand in brackets too deep"), 0;
    int64_t v = unary(depth);
    for (;;) {
      blanks();
      const std::string_view rest = text_.substr(at_);
      const Operator* found = nullptr;
      for (const Operator& o : kOperators)
        if (rest.starts_with(o.text)) {
          found = &o;
          break;
        }
      if (!found || found->rank < lowest) return v;
      at_ += found->text.size();
      const int64_t right = binary(depth + 1, found->text == "**" ? found->rank : found->rank + 1);
      v = applied(found->text, v, right);
    }
  }

  int64_t applied(std::string_view sign, int64_t a, int64_t b) {
    int64_t r = 0;
    bool over = false;
    if (sign == "+") {
      over = __builtin_add_overflow(a, b, &r);
    } else if (sign == "-") {
      over = __builtin_sub_overflow(a, b, &r);
    } else if (sign == "*") {
      over = __builtin_mul_overflow(a, b, &r);
    } else if (sign == "**") {
      r = 1;
      if (b < 0 || b > 64) return note("an exponent of $(( )) is between 0 and 64"), 0;
      for (int64_t i = 0; i < b && !over; ++i) over = __builtin_mul_overflow(r, a, &r);
    } else if (sign == "/" || sign == "%") {
      if (b == 0) return note("$(( )) divides by zero"), 0;
      if (b == -1)
        over = sign == "/" && __builtin_sub_overflow(int64_t{0}, a, &r);
      else
        r = sign == "/" ? a / b : a % b;
    } else if (sign == "<<" || sign == ">>") {
      if (b < 0 || b > 63) return note("a shift of $(( )) is between 0 and 63"), 0;
      r = sign == "<<" ? static_cast<int64_t>(static_cast<uint64_t>(a) << b) : a >> b;
    } else {
      r = sign == "<="   ? a <= b
          : sign == ">=" ? a >= b
          : sign == "==" ? a == b
          : sign == "!=" ? a != b
          : sign == "&&" ? a && b
          : sign == "||" ? a || b
          : sign == "<"  ? a < b
          : sign == ">"  ? a > b
          : sign == "&"  ? (a & b)
          : sign == "^"  ? (a ^ b)
                         : (a | b);
    }
    if (over) note("a number of $(( )) is too large");
    return r;
  }

  int64_t unary(int depth) {
    if (depth > kDeepestShell) return note("brackets stand in brackets too deep"), 0;
    for (const bool up : {true, false})
      if (takes(up ? "++" : "--")) {
        const std::string name = name_here();
        return name.empty() ? (note("++ and -- stand beside a name"), 0) : assigned(name, read(name) + (up ? 1 : -1));
      }
    if (takes("!")) return !unary(depth + 1);
    if (takes("~")) return ~unary(depth + 1);
    if (takes("-")) return applied("-", 0, unary(depth + 1));
    if (takes("+")) return unary(depth + 1);
    if (takes("(")) {
      const int64_t v = choice(depth + 1);
      if (!takes(")")) note("a bracket of $(( )) is not closed");
      return v;
    }
    return atom(depth);
  }

  std::string name_here() {
    blanks();
    const size_t begin = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || (at_ > begin && is_digit(text_[at_])))) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  int64_t read(const std::string& name) {
    if (!variables_.is_set(name)) return 0;  // as in bash
    const ShellValue value = variables_.get(name, line_);
    return number(value.items.empty() ? "" : value.items[0], value.problem);
  }
  int64_t assigned(const std::string& name, int64_t v) {
    variables_.set(name, {.items = {std::to_string(v)}, .problem = problem_});
    return v;
  }

  int64_t atom(int depth, bool ten = false) {
    ten_ = ten;
    blanks();
    if (at_ < text_.size() && text_[at_] == '$') {
      size_t end = at_ + 1;
      if (end < text_.size() && (text_[end] == '{' || text_[end] == '(')) {
        const size_t close = closing_bracket(text_, end + 1, text_[end], text_[end] == '{' ? '}' : ')');
        if (close == std::string_view::npos) return note("$( or ${ is not closed"), 0;
        end = close + 1;
      } else {
        while (end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end]))) ++end;
        if (end == at_ + 1) ++end;  // $#
      }
      const std::string raw(text_.substr(at_, end - at_));
      at_ = std::min(end, text_.size());
      const bool was = std::exchange(variables_.unset_is_empty, true);
      const std::vector<ExpandedWord> words = variables_.expand(raw, line_, false, depth + 1);
      variables_.unset_is_empty = was;
      return words.empty() ? 0 : number(words[0].text, words[0].problem);
    }
    if (const std::string name = name_here(); !name.empty()) {
      if (at_ < text_.size() && text_[at_] == '[') {
        const size_t close = closing_bracket(text_, at_ + 1, '[', ']');
        if (close == std::string_view::npos) return note("[ is not closed in $(( ))"), 0;
        const std::string raw = "${" + name + std::string(text_.substr(at_, close + 1 - at_)) + "}";
        at_ = close + 1;
        const std::vector<ExpandedWord> words = variables_.expand(raw, line_, false, depth + 1);
        return words.empty() ? 0 : number(words[0].text, words[0].problem);
      }
      const int64_t v = read(name);
      for (const bool up : {true, false})
        if (takes(up ? "++" : "--")) return assigned(name, v + (up ? 1 : -1)), v;
      for (const std::string_view sign : {"+", "-", "*", "/", "%"})
        if (takes(std::string(sign) + "=")) return assigned(name, applied(sign, v, choice(depth + 1)));
      blanks();
      if (at_ < text_.size() && text_[at_] == '=' && !text_.substr(at_).starts_with("=="))
        return ++at_, assigned(name, choice(depth + 1));
      return v;
    }
    const size_t begin = at_;
    while (at_ < text_.size() && (is_digit(text_[at_]) || is_letter(text_[at_]))) ++at_;
    if (at_ < text_.size() && text_[at_] == '#' && text_.substr(begin, at_ - begin) == "10") {  // 10#08 is 8
      ++at_;
      const int64_t v = atom(depth + 1, true);
      return v;
    }
    return number(std::string(text_.substr(begin, at_ - begin)), {});
  }

  int64_t number(std::string text, const ShellProblem& problem) {
    if (problem) return note(problem.text, problem.line), 0;
    text.erase(0, text.find_first_not_of(" \t\n"));
    text.erase(text.find_last_not_of(" \t\n") + 1);
    if (text.empty()) return at_ <= text_.size() && begun_with_value() ? 0 : (note("'' is no whole number in $(( ))"), 0);
    const bool minus = text[0] == '-';
    if (minus) text.erase(0, 1);
    const bool hex = text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    // octal as in bash: 010 is 8, 08 is an error
    const bool octal = !std::exchange(ten_, false) && !hex && text.size() > 1 && text[0] == '0';
    int64_t v = 0;
    const char* begin = text.data() + (hex ? 2 : 0);
    const auto [end, error] = std::from_chars(begin, text.data() + text.size(), v, hex ? 16 : octal ? 8 : 10);
    if (error != std::errc() || end != text.data() + text.size())
      note(fmt::format("'{}' is no whole number in $(( ))", text.substr(0, 40)));
    return minus ? -v : v;
  }
  // True if the text ended after a value, which was empty. After an operator a value is missing.
  bool begun_with_value() const {
    return at_ > 0 && std::string_view("+-*/%<>=&|^ ").find(text_[at_ - 1]) == std::string_view::npos;
  }

  std::string_view text_;
  ShellVariables& variables_;
  int line_;
  size_t at_ = 0;
  bool ten_ = false;  // the next number is decimal, whatever it begins with
  ShellProblem problem_;
};

}  // namespace

ExpandedWord arithmetic(std::string_view text, ShellVariables& variables, int line, int depth) {
  return Arithmetic(text, variables, line).value(depth);
}

}  // namespace ravine
