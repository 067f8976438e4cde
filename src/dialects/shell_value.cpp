#include "dialects/shell_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>

namespace ravine {
namespace {

constexpr size_t kLongest = size_t{1} << 17;  // of a word: what Linux passes to a program
constexpr int kDeepest = 32;                  // brackets in brackets

bool is_name_char(char c, bool first = false) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (!first && c >= '0' && c <= '9');
}

size_t name_end(std::string_view text, size_t at) {
  const size_t begin = at;
  while (at < text.size() && is_name_char(text[at], at == begin)) ++at;
  return at;
}

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

// Collects the words that one raw word expands to.
class Expansion {
 public:
  Expansion(const ShellVariables& variables, int line, bool split) : variables_(variables), line_(line), split_(split) {}

  std::vector<ExpandedWord> words(std::string_view raw, int depth) {
    unquoted(raw, depth);
    finish();
    return std::move(out_);
  }

  ExpandedWord body(std::string_view raw) {
    for (size_t at = 0; at < raw.size();) {
      if (raw[at] == '\\' && at + 1 < raw.size() && (raw[at + 1] == '$' || raw[at + 1] == '\\' || raw[at + 1] == '`'))
        add(raw[at + 1]), at += 2;
      else if (raw[at] == '$' || raw[at] == '`')
        at = dollar(raw, at, true, 0);
      else
        add(raw[at++]);
    }
    return {std::move(word_), trouble_};
  }

 private:
  void add(char c) {
    if (word_.size() < kLongest)
      word_ += c;
    else
      note("the text becomes too long");
    begun_ = true;
  }
  void note(const std::string& why, int line = 0) {
    if (!trouble_) trouble_ = {why, line > 0 ? line : line_};
    begun_ = true;
  }
  void finish() {
    if (begun_) out_.push_back({std::move(word_), trouble_});
    word_.clear(), trouble_ = {}, begun_ = false;
  }

  // What an unquoted $ gives is split at blanks.
  void add_value(const std::string& text, bool quoted) {
    if ((spent_ += text.size()) > 8 * kLongest) return note("the text becomes too long");
    if (quoted || !split_) {
      for (const char c : text) add(c);
      begun_ = begun_ || quoted;
      return;
    }
    for (const char c : text) {
      if (!is_blank(c))
        add(c);
      else if (begun_)
        finish();
    }
  }

  void unquoted(std::string_view raw, int depth) {
    for (size_t at = 0; at < raw.size();) {
      const char c = raw[at];
      if (c == '\\' && at + 1 < raw.size()) {
        if (raw[at + 1] != '\n') add(raw[at + 1]);
        at += 2;
      } else if (c == '\'') {
        const size_t end = std::min(raw.find('\'', at + 1), raw.size());
        for (const char x : raw.substr(at + 1, end - at - 1)) add(x);
        begun_ = true;
        at = end + 1;
      } else if (c == '"') {
        at = quoted(raw, at + 1, depth);
      } else if (c == '$' || c == '`') {
        at = dollar(raw, at, false, depth);
      } else {
        add(c), ++at;
      }
    }
  }

  size_t quoted(std::string_view raw, size_t at, int depth) {
    begun_ = true;
    while (at < raw.size() && raw[at] != '"') {
      if (raw[at] == '\\' && at + 1 < raw.size() && std::string_view("$`\"\\\n").find(raw[at + 1]) != std::string_view::npos) {
        if (raw[at + 1] != '\n') add(raw[at + 1]);
        at += 2;
      } else if (raw[at] == '$' || raw[at] == '`') {
        at = dollar(raw, at, true, depth);
      } else {
        add(raw[at++]);
      }
    }
    return at + 1;
  }

  // The $ or ` at raw[at]; returns where the text goes on.
  size_t dollar(std::string_view raw, size_t at, bool quoted, int depth) {
    static const char* const kNeedsShell = "a command substitution needs a shell";
    if (raw[at] == '`') {
      const size_t end = raw.find('`', at + 1);
      note(kNeedsShell);
      return end == std::string_view::npos ? raw.size() : end + 1;
    }
    const std::string_view rest = raw.substr(at + 1);
    if (rest.starts_with("((")) {
      const size_t end = closing_bracket(raw, at + 3, '(', ')');
      if (end == std::string_view::npos || end + 1 >= raw.size() || raw[end + 1] != ')')
        return note("$(( is not closed"), raw.size();
      const ExpandedWord value = arithmetic(raw.substr(at + 3, end - at - 3), variables_, line_, depth + 1);
      if (value.trouble) note(value.trouble.text, value.trouble.line);
      add_value(value.text, quoted);
      return end + 2;
    }
    if (rest.starts_with("(")) {
      const size_t end = closing_bracket(raw, at + 2, '(', ')');
      note(kNeedsShell);
      return end == std::string_view::npos ? raw.size() : end + 1;
    }
    if (rest.starts_with("{")) {
      const size_t end = closing_bracket(raw, at + 2, '{', '}');
      if (end == std::string_view::npos) return note("${ is not closed"), raw.size();
      braces(raw.substr(at + 2, end - at - 2), quoted, depth);
      return end + 1;
    }
    const size_t end = name_end(raw, at + 1);
    if (end > at + 1) {
      variable(std::string(raw.substr(at + 1, end - at - 1)), quoted, false);
      return end;
    }
    if (!rest.empty() && std::string_view("0123456789@*#?$!-").find(rest[0]) != std::string_view::npos)
      return note(fmt::format("${} is known to whoever starts the script", rest[0])), at + 2;
    return add('$'), at + 1;
  }

  void braces(std::string_view inside, bool quoted, int depth) {
    const bool positional = !inside.empty() && inside[0] >= '0' && inside[0] <= '9';
    const size_t end = positional ? std::min(inside.find_first_not_of("0123456789"), inside.size()) : name_end(inside, 0);
    const std::string name(inside.substr(0, end));
    const std::string_view behind = inside.substr(end);
    if (name.empty()) return note(fmt::format("${{{}}} is not understood", inside.substr(0, 40)));
    if (behind.empty()) {
      if (positional) return note(fmt::format("${{{}}} is known to whoever starts the script", name));
      return variable(name, quoted, false);
    }
    if (behind == "[@]" || behind == "[*]") return variable(name, quoted, true);
    const bool colon = behind.starts_with(":-") || behind.starts_with(":=");
    if (!colon && !behind.starts_with("-") && !behind.starts_with("="))
      return note(fmt::format("${{{}}} needs a shell", inside.substr(0, 40)));
    const bool set = !positional && variables_.is_set(name);
    if (set) {
      const ShellValue value = variables_.get(name, line_);
      if (!colon || value.trouble || (!value.items.empty() && !value.items[0].empty())) return variable(name, quoted, false);
    }
    if (depth >= kDeepest) return note("brackets stand in brackets too deep");
    const std::string_view otherwise = behind.substr(colon ? 2 : 1);
    Expansion inner(variables_, line_, split_ && !quoted);
    inner.unquoted(otherwise, depth + 1);
    inner.finish();
    for (size_t i = 0; i < inner.out_.size(); ++i) {
      if (i > 0) finish();
      if (inner.out_[i].trouble) note(inner.out_[i].trouble.text, inner.out_[i].trouble.line);
      for (const char c : inner.out_[i].text) add(c);
      begun_ = true;
    }
    begun_ = begun_ || quoted;
  }

  void variable(const std::string& name, bool quoted, bool all) {
    const ShellValue value = variables_.get(name, line_);
    if (value.trouble) note(value.trouble.text, value.trouble.line);
    if (!all) return add_value(value.items.empty() ? "" : value.items[0], quoted);
    for (size_t i = 0; i < value.items.size(); ++i) {
      if (i > 0) finish();
      add_value(value.items[i], quoted);
    }
  }

  const ShellVariables& variables_;
  int line_;
  bool split_;
  std::vector<ExpandedWord> out_;
  std::string word_;
  ShellTrouble trouble_;
  bool begun_ = false;
  size_t spent_ = 0;
};

// A sum of products, by descent.
class Arithmetic {
 public:
  Arithmetic(std::string_view text, const ShellVariables& variables, int line)
      : text_(text), variables_(variables), line_(line) {}

  ExpandedWord value(int depth) {
    const int64_t v = sum(depth);
    blanks();
    if (at_ < text_.size()) note(fmt::format("'{}' is not understood in $(( ))", text_.substr(at_, 20)));
    return {trouble_ ? "" : std::to_string(v), trouble_};
  }

 private:
  void note(const std::string& why, int line = 0) {
    if (!trouble_) trouble_ = {why, line > 0 ? line : line_};
    at_ = text_.size();
  }
  void blanks() {
    while (at_ < text_.size() && (is_blank(text_[at_]) || text_[at_] == '"')) ++at_;
  }
  bool takes(char c) {
    blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    return ++at_, true;
  }
  template <class F>
  int64_t checked(F overflows, int64_t a, int64_t b) {
    int64_t result = 0;
    if (overflows(a, b, &result)) note("a number of $(( )) is too large");
    return result;
  }
  int64_t sum(int depth) {
    int64_t v = product(depth);
    for (;;) {
      if (takes('+'))
        v = checked([](int64_t a, int64_t b, int64_t* r) { return __builtin_add_overflow(a, b, r); }, v, product(depth));
      else if (takes('-'))
        v = checked([](int64_t a, int64_t b, int64_t* r) { return __builtin_sub_overflow(a, b, r); }, v, product(depth));
      else
        return v;
    }
  }
  int64_t product(int depth) {
    int64_t v = atom(depth);
    for (;;) {
      if (takes('*')) {
        v = checked([](int64_t a, int64_t b, int64_t* r) { return __builtin_mul_overflow(a, b, r); }, v, atom(depth));
      } else if (const bool share = takes('/'); share || takes('%')) {
        const int64_t by = atom(depth);
        if (by == 0 || by == -1) {
          if (by == 0) note("$(( )) divides by zero");
          v = by == 0 || !share
                  ? 0
                  : checked([](int64_t a, int64_t b, int64_t* r) { return __builtin_mul_overflow(a, b, r); }, v, by);
        } else {
          v = share ? v / by : v % by;
        }
      } else {
        return v;
      }
    }
  }
  int64_t atom(int depth) {
    if (depth > kDeepest) return note("brackets stand in brackets too deep"), 0;
    if (takes('-'))
      return checked([](int64_t a, int64_t b, int64_t* r) { return __builtin_sub_overflow(a, b, r); }, 0, atom(depth + 1));
    if (takes('(')) {
      const int64_t v = sum(depth + 1);
      if (!takes(')')) note("a bracket of $(( )) is not closed");
      return v;
    }
    blanks();
    if (at_ < text_.size() && text_[at_] == '$') {
      ++at_;
      if (takes('(')) return note("a command substitution needs a shell"), 0;
      if (at_ < text_.size() && text_[at_] == '{') {
        const size_t end = closing_bracket(text_, at_ + 1, '{', '}');
        if (end == std::string_view::npos) return note("${ is not closed"), 0;
        const std::string raw(text_.substr(at_ - 1, end - at_ + 2));
        at_ = end + 1;
        const std::vector<ExpandedWord> words = variables_.expand(raw, line_, false, depth + 1);
        return words.empty() ? number("", {}) : number(words[0].text, words[0].trouble);
      }
    }
    if (const size_t end = name_end(text_, at_); end > at_) {
      const std::string name(text_.substr(at_, end - at_));
      at_ = end;
      const ShellValue value = variables_.get(name, line_);
      return number(value.items.empty() ? "" : value.items[0], value.trouble);
    }
    const size_t end = std::min(text_.find_first_not_of("0123456789", at_), text_.size());
    const std::string digits(text_.substr(at_, end - at_));
    at_ = end;
    return number(digits, {});
  }
  int64_t number(const std::string& text, const ShellTrouble& trouble) {
    if (trouble) return note(trouble.text, trouble.line), 0;
    int64_t v = 0;
    const bool octal = text.size() > 1 && text[0] == '0';  // as bash has it: 010 is 8, and 08 no number
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v, octal ? 8 : 10);
    if (error != std::errc() || end != text.data() + text.size())
      note(fmt::format("'{}' is no whole number in $(( ))", text.substr(0, 40)));
    return v;
  }

  std::string_view text_;
  const ShellVariables& variables_;
  int line_;
  size_t at_ = 0;
  ShellTrouble trouble_;
};

}  // namespace

size_t closing_bracket(std::string_view text, size_t at, char open, char close) {
  int depth = 1;
  char quote = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\\' && quote != '\'') {
      ++at;
    } else if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == open) {
      ++depth;
    } else if (c == close && --depth == 0) {
      return at;
    }
  }
  return std::string_view::npos;
}

void ShellVariables::set(const std::string& name, ShellValue value) { values_[name] = std::move(value); }

void ShellVariables::append(const std::string& name, const ShellValue& value) {
  ShellValue& had = values_[name];
  if (!had.trouble) had.trouble = value.trouble;
  size_t bytes = 0;
  for (const std::string& item : had.items) bytes += item.size() + 1;
  if (bytes > kLongest) {
    had.trouble = {"the text becomes too long", value.trouble.line};
  } else if (value.array) {
    if (!had.array && had.items.size() == 1 && had.items[0].empty()) had.items.clear();
    had.array = true;
    had.items.insert(had.items.end(), value.items.begin(), value.items.end());
  } else {
    if (had.items.empty()) had.items.emplace_back();
    had.items[0] += value.items.empty() ? "" : value.items[0];
  }
}

bool ShellVariables::is_set(const std::string& name) const {
  return values_.contains(name) || std::getenv(name.c_str()) != nullptr;
}

ShellValue ShellVariables::get(const std::string& name, int line) const {
  if (const auto it = values_.find(name); it != values_.end()) return it->second;
  if (const char* value = std::getenv(name.c_str())) return {.items = {value}};
  return {.trouble = {fmt::format("{} is set neither in the script nor in the environment", name), line}};
}

std::vector<ExpandedWord> ShellVariables::expand(std::string_view raw, int line, bool split, int depth) const {
  return Expansion(*this, line, split).words(raw, depth);
}

ExpandedWord ShellVariables::expand_body(std::string_view raw, int line) const {
  return Expansion(*this, line, false).body(raw);
}

ExpandedWord arithmetic(std::string_view text, const ShellVariables& variables, int line, int depth) {
  return Arithmetic(text, variables, line).value(depth);
}

}  // namespace ravine
