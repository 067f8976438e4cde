// The expansion of a written word: quotes, $, ${ }, $( ) and $(( )).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "dialects/shell_value.h"

namespace ravine {
namespace {

constexpr size_t kLongest = kLongestShellWord;
constexpr int kDeepest = kDeepestShell;

bool is_name_char(char c, bool first = false) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (!first && c >= '0' && c <= '9');
}

size_t name_end(std::string_view text, size_t at) {
  const size_t begin = at;
  while (at < text.size() && is_name_char(text[at], at == begin)) ++at;
  return at;
}

// Expands one raw word, and collects the resulting words.
class Expansion {
 public:
  Expansion(ShellVariables& variables, int line, bool split) : Expansion(variables, line, split, !split) {}
  Expansion(ShellVariables& variables, int line, bool split, bool joins)
      : variables_(variables), line_(line), split_(split), joins_(joins) {
    if (const auto ifs = variables.own("IFS"); ifs && !ifs->gone && !ifs->items.empty()) separators_ = ifs->items[0];
  }

  std::vector<ExpandedWord> words(std::string_view raw, int depth) {
    if (raw == "~" || raw.starts_with("~/")) {
      variable("HOME", true, false);
      raw.remove_prefix(1);
    }
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
    return {std::move(word_), problem_};
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
    if (!problem_) problem_ = {why, line > 0 ? line : line_};
    begun_ = true;
  }
  void finish() {
    if (begun_) out_.push_back({std::move(word_), problem_});
    word_.clear(), problem_ = {}, begun_ = false;
  }

  // Appends the value of a $; an unquoted value is split at blanks.
  void add_value(const std::string& text, bool quoted) {
    if ((spent_ += text.size()) > 8 * kLongest) return note("the text becomes too long");
    if (quoted || !split_) {
      for (const char c : text) add(c);
      begun_ = begun_ || quoted;
      return;
    }
    for (const char c : text) {
      if (separators_.find(c) == std::string::npos)
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

  // Expands the $ or ` at raw[at]. Returns the index after it.
  size_t dollar(std::string_view raw, size_t at, bool quoted, int depth) {
    if (raw[at] == '`') {
      const size_t end = std::min(raw.find('`', at + 1), raw.size());
      std::string inside(raw.substr(at + 1, end - at - 1));
      for (size_t i = 0; i + 1 < inside.size(); ++i)
        if (inside[i] == '\\' && (inside[i + 1] == '$' || inside[i + 1] == '\\')) inside.erase(i, 1);
      substituted(inside, quoted, depth);
      return end + 1;
    }
    const std::string_view rest = raw.substr(at + 1);
    if (rest.starts_with("((")) {
      const size_t end = closing_bracket(raw, at + 3, '(', ')');
      if (end == std::string_view::npos || end + 1 >= raw.size() || raw[end + 1] != ')')
        return note("$(( is not closed"), raw.size();
      const ExpandedWord value = arithmetic(raw.substr(at + 3, end - at - 3), variables_, line_, depth + 1);
      if (value.problem) note(value.problem.text, value.problem.line);
      add_value(value.text, quoted);
      return end + 2;
    }
    if (rest.starts_with("(")) {
      const size_t end = closing_bracket(raw, at + 2, '(', ')');
      substituted(std::string(raw.substr(at + 2, std::min(end, raw.size()) - at - 2)), quoted, depth);
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
    if (!rest.empty() && std::string_view("0123456789@*#").find(rest[0]) != std::string_view::npos)
      return put(argument(std::string(1, rest[0]), quoted), quoted), at + 2;
    if (rest.starts_with("'") && !quoted) {  // $'a\tb'
      const size_t end = std::min(rest.find('\'', 1), rest.size());
      for (size_t i = 1; i < end; ++i) {
        const char next = i + 1 < end ? rest[i + 1] : ' ';
        const size_t known = rest[i] == '\\' ? std::string_view("tnr\\'\"").find(next) : std::string_view::npos;
        add(known == std::string_view::npos ? rest[i] : "\t\n\r\\'\""[known]);
        i += known == std::string_view::npos ? 0 : 1;
      }
      begun_ = true;
      return at + 1 + std::min(end + 1, rest.size());
    }
    if (!rest.empty() && std::string_view("?$!-").find(rest[0]) != std::string_view::npos)
      return note(fmt::format("${} is known to the shell that runs the script", rest[0])), at + 2;
    return add('$'), at + 1;
  }

  void substituted(const std::string& inside, bool quoted, int depth) {
    if (depth >= kDeepest || !variables_.substitute) return note(fmt::format("$({}) needs a shell", inside.substr(0, 60)));
    const ExpandedWord value = variables_.substitute(inside, line_);
    if (value.problem) note(value.problem.text, value.problem.line);
    add_value(value.text, quoted);
  }

  // Returns the items as "$*" gives them: with the first character of IFS between them.
  std::string joined(const std::vector<std::string>& items) const {
    return fmt::format("{}", fmt::join(items, separators_.substr(0, 1)));
  }

  // Returns $0, $1, $@, $* or $#. $@ and $* have an item for each argument.
  ShellValue argument(const std::string& name, bool quoted) {
    const auto& all = variables_.arguments;
    if (name == "#") return {.items = {std::to_string(all.size())}};
    if (name == "0") return {.items = {variables_.script}};
    if (name == "@" || (name == "*" && !quoted)) return {.items = all, .array = true};
    if (name == "*") return {.items = {joined(all)}};
    const size_t number = name.size() > 4 ? all.size() + 1 : std::stoul(name);
    if (number <= all.size()) return {.items = {all[number - 1]}};
    if (variables_.arguments_given || variables_.unset_is_empty) return {};
    return {.problem = {fmt::format("${} is known to whoever starts the script: write --script FILE -- WORDS", name), line_}};
  }

  void put(const ShellValue& value, bool quoted) {
    if (value.problem) note(value.problem.text, value.problem.line);
    for (size_t i = 0; i < value.items.size(); ++i) {
      if (i > 0 && joins_)
        add(' ');
      else if (i > 0)
        finish();
      add_value(value.items[i], quoted);
    }
    if (value.array && value.items.empty() && word_.empty()) begun_ = false;  // "$@" without arguments is no word
  }

  // Expands the text in ${ }.
  void braces(std::string_view inside, bool quoted, int depth) {
    if (depth >= kDeepest) return note("brackets stand in brackets too deep");
    const bool length = inside.size() > 1 && inside[0] == '#', indirect = inside.size() > 1 && inside[0] == '!';
    if (length || indirect) inside.remove_prefix(1);
    const bool special = !inside.empty() && std::string_view("0123456789@*#").find(inside[0]) != std::string_view::npos;
    size_t end = name_end(inside, 0);
    if (special)
      end = inside[0] >= '0' && inside[0] <= '9' ? std::min(inside.find_first_not_of("0123456789"), inside.size()) : 1;
    std::string name(inside.substr(0, end));
    std::string_view behind = inside.substr(end);
    if (name.empty()) return note(fmt::format("${{{}}} is not understood", inside.substr(0, 40)));
    bool all = special && (name == "@" || name == "*"), item = false;
    std::string index;
    if (behind.starts_with("[")) {
      const size_t close = closing_bracket(behind, 1, '[', ']');
      if (close == std::string_view::npos) return note(fmt::format("${{{}}} is not closed", inside.substr(0, 40)));
      index = behind.substr(1, close - 1);
      all = index == "@" || index == "*", item = !all;
      behind.remove_prefix(close + 1);
    }
    if (indirect && all && !special) {  // ${!NAME[@]}: the indices of the array
      const ShellValue of = variables_.get(name, line_);
      ShellValue keys{.items = {}, .array = true, .problem = of.problem};
      for (const auto& [key, text] : of.names) keys.items.push_back(key);
      for (size_t i = 0; i < of.items.size() && !of.named && variables_.is_set(name); ++i)
        keys.items.push_back(std::to_string(i));
      return put(keys, quoted);
    }
    if (indirect) {  // ${!NAME}: the variable whose name is the value of NAME
      const ShellValue of = special ? argument(name, quoted) : variables_.get(name, line_);
      if (of.problem || of.items.empty() || name_end(of.items[0], 0) != of.items[0].size() || of.items[0].empty())
        return note(fmt::format("${{!{}}} names no variable", name), of.problem.line);
      name = of.items[0];
    }
    const bool set = special ? name == "@" || name == "*" || name == "#" || name == "0" || name.size() > 4 ||
                                   std::stoul(name) <= variables_.arguments.size()
                             : variables_.is_set(name);
    const bool colon =
        behind.starts_with(":") && behind.size() > 1 && std::string_view("-=+?").find(behind[1]) != std::string_view::npos;
    const std::string_view choice = colon ? behind.substr(1) : behind;
    const bool chooses = !choice.empty() && std::string_view("-=+?").find(choice[0]) != std::string_view::npos;
    ShellValue value;
    if (set || !chooses) value = special && !indirect ? argument(name, quoted) : variables_.get(name, line_);
    if (item && value.named && !value.problem) {
      const std::string key = text_of(index, value, depth);
      const auto at = value.names.find(key);
      value.items = {at == value.names.end() ? "" : at->second};
      value.named = false;
    } else if (item && !value.problem) {
      const ExpandedWord at = arithmetic(index, variables_, line_, depth + 1);
      int64_t i = 0;
      std::from_chars(at.text.data(), at.text.data() + at.text.size(), i);
      if (i < 0) i += static_cast<int64_t>(value.items.size());
      if (at.problem) value.problem = at.problem;
      const bool there = i >= 0 && i < static_cast<int64_t>(value.items.size());
      value.items = {there ? value.items[static_cast<size_t>(i)] : ""};
    } else if (!all && !value.items.empty()) {
      value.items.resize(1);
    }
    value.array = all;
    if (all && !set && !value.problem) value.items.clear();
    if (all && value.named && !value.problem) {
      value.items.clear();
      for (const auto& [key, text] : value.names) value.items.push_back(text);
    }
    if (all && behind.starts_with(":") && !chooses) {
      sliced(value, behind.substr(1), special, depth);
      behind = {};
    }
    if (index == "*" && quoted && !length && !chooses) value = {.items = {joined(value.items)}, .problem = value.problem};
    if (length) {
      value.items = {std::to_string(all ? value.items.size() : value.items.empty() ? 0 : value.items[0].size())};
      return put(value, quoted);
    }
    if (chooses) {
      const bool filled = set && (value.problem || !colon || (!value.items.empty() && !value.items[0].empty()));
      if (choice[0] == '+' ? !filled : filled) {
        if (choice[0] == '+') return;
        return put(value, quoted);
      }
      if (choice[0] == '?') return note(fmt::format("{} is not set, and the script ends there", name));
      const size_t before = out_.size();
      otherwise(choice.substr(1), quoted, depth);
      if (choice[0] == '=' && !special)
        variables_.set(name, {.items = {out_.size() == before ? word_ : ""}, .problem = problem_});
      return;
    }
    for (std::string& text : value.items)
      if (!behind.empty() && !value.problem) changed(text, behind, value, depth);
    put(value, quoted);
  }

  // Returns the value of an expression; a trouble in it is stored in `value`.
  int64_t number_of(std::string_view words, ShellValue& value, int depth) {
    const ExpandedWord n = arithmetic(words, variables_, line_, depth + 1);
    if (n.problem) value.problem = n.problem;
    int64_t v = 0;
    std::from_chars(n.text.data(), n.text.data() + n.text.size(), v);
    return v;
  }

  // Slices ${A[@]:from:count} or ${@:from:count}: items, for $@ counted from 1.
  void sliced(ShellValue& value, std::string_view by, bool arguments, int depth) {
    if (arguments) value.items.insert(value.items.begin(), variables_.script);
    const auto size = static_cast<int64_t>(value.items.size());
    const size_t colon = by.find(':');
    int64_t from = number_of(by.substr(0, colon), value, depth);
    from = std::clamp<int64_t>(from < 0 ? size + from : from, 0, size);
    int64_t end = colon == std::string_view::npos
                      ? size
                      : from + std::clamp<int64_t>(number_of(by.substr(colon + 1), value, depth), 0, size);
    end = std::min(end, size);
    value.items = {value.items.begin() + from, value.items.begin() + end};
  }

  // Expands the words after ${NAME:-.
  void otherwise(std::string_view words, bool quoted, int depth) {
    Expansion inner(variables_, line_, split_ && !quoted, joins_);
    inner.unquoted(words, depth + 1);
    inner.finish();
    for (size_t i = 0; i < inner.out_.size(); ++i) {
      if (i > 0) finish();
      if (inner.out_[i].problem) note(inner.out_[i].problem.text, inner.out_[i].problem.line);
      for (const char c : inner.out_[i].text) add(c);
      begun_ = true;
    }
    begun_ = begun_ || quoted;
  }

  std::string text_of(std::string_view words, ShellValue& value, int depth) {
    Expansion inner(variables_, line_, false);
    inner.unquoted(words, depth + 1);
    inner.finish();
    if (inner.out_.empty()) return "";
    if (inner.out_[0].problem) value.problem = inner.out_[0].problem;
    return inner.out_[0].text;
  }

  // Replaces like ${A/p/r}, ${A//p/r}, ${A/#p/r} or ${A/%p/r}. `by`: the text after the first slash.
  void replaced(std::string& text, std::string_view by, ShellValue& value, int depth) {
    const char mode = by.empty() ? ' ' : by[0];
    const bool every = mode == '/', front = mode == '#', back = mode == '%';
    if (every || front || back) by.remove_prefix(1);
    size_t slash = 0;
    while (slash < by.size() && by[slash] != '/') slash += by[slash] == '\\' ? 2 : 1;
    slash = std::min(slash, by.size());
    const std::string pattern = text_of(by.substr(0, slash), value, depth),
                      into = slash == by.size() ? "" : text_of(by.substr(slash + 1), value, depth);
    const bool wild = pattern.find_first_of("*?[\\") != std::string::npos;
    if (wild && text.size() > 256)  // every part of the text is matched, which is slow
      return void(value.problem = {"a text of more than 256 characters is not searched for a pattern by ${ }", line_});
    const auto fits = [&](std::string_view part) { return wild ? fits_shell_pattern(pattern, part) : pattern == part; };
    std::string out;
    bool done = pattern.empty();
    for (size_t at = 0; at < text.size();) {
      const size_t rest = text.size() - at;
      size_t n = done || (front && at > 0) ? 0 : wild ? rest : std::min(pattern.size(), rest);
      while (n > 0 && !(fits(std::string_view(text).substr(at, n)) && (!back || n == rest))) n = wild ? n - 1 : 0;
      if (n > 0)
        out += into, at += n, done = !every;
      else
        out += text[at++];
    }
    text = out;
  }

  // Applies ${A#p}, ${A##p}, ${A%p}, ${A%%p}, ${A/p/r}, ${A//p/r}, ${A:from:count}, ${A^^} or ${A,,}.
  void changed(std::string& text, std::string_view by, ShellValue& value, int depth) {
    const auto fits = [](const std::string& pattern, std::string_view part) { return fits_shell_pattern(pattern, part); };
    if (text.size() > 4096) return void(value.problem = {"a text of more than 4096 characters is not changed by ${ }", line_});
    if (by[0] == '#' || by[0] == '%') {
      const bool front = by[0] == '#', longest = by.size() > 1 && by[1] == by[0];
      const std::string pattern = text_of(by.substr(longest ? 2 : 1), value, depth);
      for (size_t k = 0; k <= text.size(); ++k) {
        const size_t n = longest ? text.size() - k : k;
        const std::string_view part =
            front ? std::string_view(text).substr(0, n) : std::string_view(text).substr(text.size() - n);
        if (!fits(pattern, part)) continue;
        text = front ? text.substr(n) : text.substr(0, text.size() - n);
        return;
      }
    } else if (by[0] == '/') {
      replaced(text, by.substr(1), value, depth);
    } else if (by[0] == ':') {
      const size_t second = by.find(':', 1);
      const auto size = static_cast<int64_t>(text.size());
      int64_t from = number_of(by.substr(1, second == std::string_view::npos ? second : second - 1), value, depth);
      from = std::clamp<int64_t>(from < 0 ? size + from : from, 0, size);
      int64_t end = second == std::string_view::npos ? size : number_of(by.substr(second + 1), value, depth);
      if (second != std::string_view::npos) end = end < 0 ? size + end : std::min(size, from + std::min(end, size));
      text = text.substr(static_cast<size_t>(from), static_cast<size_t>(std::max<int64_t>(end - from, 0)));
    } else if (by == "^^" || by == ",,") {
      for (char& c : text) {
        if (by == "^^" && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
        if (by == ",," && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
      }
    } else {
      value.problem = {fmt::format("${{..{}}} is not understood", by.substr(0, 40)), line_};
    }
  }

  void variable(const std::string& name, bool quoted, bool all) {
    const ShellValue value = variables_.get(name, line_);
    if (value.problem) note(value.problem.text, value.problem.line);
    if (!all) return add_value(value.items.empty() ? "" : value.items[0], quoted);
    put(value, quoted);
  }

  ShellVariables& variables_;
  int line_;
  bool split_;
  bool joins_;  // true: the items of an array become one word with blanks between them, as in an assignment
  std::vector<ExpandedWord> out_;
  std::string word_;
  ShellProblem problem_;
  bool begun_ = false;
  size_t spent_ = 0;
  std::string separators_ = " \t\n";  // IFS
};

}  // namespace

std::vector<ExpandedWord> ShellVariables::expand(std::string_view raw, int line, bool split, int depth) {
  return Expansion(*this, line, split).words(raw, depth);
}

ExpandedWord ShellVariables::expand_body(std::string_view raw, int line) { return Expansion(*this, line, false).body(raw); }

}  // namespace ravine
