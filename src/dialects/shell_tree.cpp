#include "dialects/shell_tree.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "dialects/shell_value.h"

namespace ravine {
namespace {

constexpr int kDeepestTree = 100;

bool is_name_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool ends_word(char c) { return std::string_view(" \t\r\n;&|<>()").find(c) != std::string_view::npos; }

class ShellParser {
 public:
  ShellParser(std::string_view text, const std::string& name, int line) : text_(text), name_(name), line_(line) {}

  ShellNodePtr whole() {
    ShellNodePtr all = list({});
    if (at_ < text_.size()) refuse(line_, fmt::format("'{}' closes nothing", text_.substr(at_, 1)), "take it out");
    return all;
  }

 private:
  [[noreturn]] void refuse(int line, const std::string& what, const std::string& fix) const {
    throw UserError(what, fmt::format("{}:{}", name_, line), "scripts are read as bash reads them", fix);
  }

  char here(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void blanks() {
    for (;; ++at_) {
      if (here() == '\\' && here(1) == '\n')
        ++at_, ++line_;
      else if (here() == '\\' && here(1) == '\r' && here(2) == '\n')
        at_ += 2, ++line_;
      else if (at_ >= text_.size() || (here() != ' ' && here() != '\t' && here() != '\r'))
        break;
    }
    if (here() == '#') at_ = std::min(text_.find('\n', at_), text_.size());
  }

  void take_newline() {
    ++at_, ++line_;
    read_documents();
  }

  void lines() {  // skips blanks, line ends and comments
    for (blanks(); here() == '\n'; blanks()) take_newline();
  }

  void count_lines(size_t from, size_t to) {
    const auto begin = text_.begin();
    line_ +=
        static_cast<int>(std::count(begin + static_cast<std::ptrdiff_t>(from), begin + static_cast<std::ptrdiff_t>(to), '\n'));
  }

  size_t quote_end(size_t at) const {
    for (; at < text_.size(); ++at) {
      if (text_[at] == '\\') {
        ++at;
      } else if (text_[at] == '"') {
        return at;
      } else if (text_[at] == '$' && at + 1 < text_.size() && (text_[at + 1] == '(' || text_[at + 1] == '{')) {
        at = closing_bracket(text_, at + 2, text_[at + 1], text_[at + 1] == '(' ? ')' : '}');
        if (at == std::string_view::npos) return at;
      }
    }
    return std::string_view::npos;
  }

  // Reads the next word. `also`: operator characters that may be in it.
  ShellWord word(std::string_view also = "") {
    const size_t begin = at_;
    ShellWord out{.line = line_};
    while (at_ < text_.size() && (!ends_word(here()) || also.find(here()) != std::string_view::npos)) {
      const char c = here();
      size_t end = at_;
      if (c == '\\')
        end = std::min(at_ + 1, text_.size() - 1);
      else if (c == '\'')
        end = text_.find('\'', at_ + 1);
      else if (c == '"')
        end = quote_end(at_ + 1);
      else if (c == '`')
        end = text_.find('`', at_ + 1);
      else if (c == '$' && (here(1) == '(' || here(1) == '{'))
        end = closing_bracket(text_, at_ + 2, here(1), here(1) == '(' ? ')' : '}');
      if (end == std::string_view::npos)
        refuse(line_, fmt::format("{} is not closed", c == '$' ? "$( or ${" : std::string(1, c)), "close it");
      count_lines(at_, end + 1);
      at_ = end + 1;
    }
    out.text = text_.substr(begin, at_ - begin);
    return out;
  }

  // Reads the items of NAME=( .. ) after the bracket.
  void array(ShellWord& of) {
    ++at_;
    of.array = true;
    for (;;) {
      lines();
      if (at_ >= text_.size()) refuse(of.line, fmt::format("{}( is not closed", of.text), "close it: an array ends with )");
      if (here() == ')') break;
      const size_t before = at_;
      of.items.push_back(word());
      if (at_ == before) refuse(line_, fmt::format("'{}' in an array", here()), "put it in quotes");
    }
    ++at_;
  }

  bool redirect(std::vector<std::shared_ptr<ShellRedirect>>& out) {
    size_t at = at_;
    while (at < text_.size() && text_[at] >= '0' && text_[at] <= '9') ++at;
    if (at < text_.size() && text_[at] == '&' && at + 1 < text_.size() && text_[at + 1] == '>') ++at;
    if (at >= text_.size() || (text_[at] != '<' && text_[at] != '>')) return false;
    const size_t begin = at;
    while (at < text_.size() && at < begin + 3 && (text_[at] == '<' || text_[at] == '>')) ++at;
    auto r = std::make_shared<ShellRedirect>();
    r->sign = text_.substr(begin, at - begin);
    at_ = at;
    if (r->sign == "<<") {
      const bool tabs = here() == '-';
      if (tabs) ++at_;
      blanks();
      const ShellWord end = word();
      r->plain = end.text.find_first_of("'\"\\") != std::string::npos;
      std::string mark;
      for (const char c : end.text)
        if (c != '\'' && c != '"' && c != '\\') mark += c;
      if (mark.empty()) refuse(end.line, "<< without a word", "write <<END");
      documents_.push_back({r, mark, tabs});
    } else {
      if (here() == '&' || here() == '|') ++at_;
      blanks();
      if (here() == '(') {  // >( .. ), <( .. )
        const size_t end = closing_bracket(text_, at_ + 1, '(', ')');
        if (end == std::string_view::npos) refuse(line_, "( is not closed", "close it");
        count_lines(at_, end), at_ = end + 1;
        return true;
      }
      r->target = word();
    }
    out.push_back(std::move(r));
    return true;
  }

  void read_documents() {
    for (Document& d : documents_) {
      const int line = line_;
      std::string body;
      for (;;) {
        if (at_ >= text_.size())
          refuse(line, fmt::format("here-document without its end {}", d.end), "add a line that holds nothing but the word");
        const size_t end = std::min(text_.find('\n', at_), text_.size());
        std::string_view row = text_.substr(at_, end - at_);
        at_ = std::min(end + 1, text_.size());
        ++line_;
        if (row.ends_with('\r')) row.remove_suffix(1);
        if (d.tabs) row.remove_prefix(std::min(row.find_first_not_of('\t'), row.size()));
        if (row == d.end) break;
        body.append(row).append("\n");
      }
      d.into->target = {.text = std::move(body), .line = line};
    }
    documents_.clear();
  }

  // Returns the next word at the start of a command, without reading it.
  std::string peek() {
    const size_t at = at_;
    const int line = line_;
    std::string text = ends_word(here()) ? "" : word().text;
    at_ = at, line_ = line;
    return text;
  }

  bool takes(std::string_view keyword) {
    lines();
    if (peek() != keyword) return false;
    at_ += keyword.size();
    return true;
  }
  void demand(std::string_view keyword, int line, const char* of) {
    if (!takes(keyword)) refuse(line, fmt::format("{} without {}", of, keyword), fmt::format("write {}", keyword));
  }

  // Reads commands up to a word of `ends`, a ) or the end of the text.
  ShellNodePtr list(std::initializer_list<std::string_view> ends) {
    auto out = std::make_shared<ShellNode>();
    out->kind = ShellKind::sequence;
    out->line = line_;
    for (;;) {
      for (lines(); here() == ';' && here(1) != ';'; lines()) ++at_;
      if (at_ >= text_.size() || here() == ')' || (here() == ';' && here(1) == ';')) break;
      if (const std::string next = peek(); std::find(ends.begin(), ends.end(), next) != ends.end()) break;
      const size_t before = at_;
      out->parts.push_back(command());
      blanks();
      std::string sign;
      for (const std::string_view s : {"&&", "||", "|&", "|", "&", ";"})
        if (text_.substr(at_).starts_with(s) && !(s == ";" && here(1) == ';')) {
          sign = s == "|&" ? "|" : s;
          at_ += s.size();
          break;
        }
      if (sign.empty()) sign = ";";
      out->signs.push_back(sign);
      if (sign == "&&" || sign == "||" || sign == "|") lines();
      if (at_ == before) refuse(line_, fmt::format("'{}' is not understood", text_.substr(at_, 1)), "put it in quotes");
    }
    return out;
  }

  ShellNodePtr command() {
    auto out = std::make_shared<ShellNode>();
    if (++depth_ > kDeepestTree) refuse(line_, "commands stand in commands too deep", "write the script flatter");
    blanks();
    while (here() == '!' && (here(1) == ' ' || here(1) == '\t')) ++at_, out->negated = !out->negated, blanks();
    out->line = line_;
    compound(*out);
    if (out->kind != ShellKind::simple)
      for (blanks(); redirect(out->redirects); blanks()) continue;
    --depth_;
    return out;
  }

  void compound(ShellNode& n) {
    if (here() == '(' && here(1) == '(') return arithmetic(n);
    if (here() == '(') {
      ++at_;
      n.kind = ShellKind::subshell;
      n.parts.push_back(list({}));
      if (here() != ')') refuse(n.line, "( is not closed", "close it");
      ++at_;
      return;
    }
    const std::string keyword = peek();
    if (keyword == "{") {
      ++at_;
      n.kind = ShellKind::group;
      n.parts.push_back(list({"}"}));
      return demand("}", n.line, "{");
    }
    if (keyword == "if") return conditions(n);
    if (keyword == "for" || keyword == "select") return loop(n, keyword);
    if (keyword == "while" || keyword == "until") {
      at_ += keyword.size();
      n.kind = ShellKind::while_;
      n.text = keyword;
      n.parts.push_back(list({"do"}));
      return body(n);
    }
    if (keyword == "case") return cases(n);
    if (keyword == "function") {
      at_ += keyword.size();
      blanks();
      n.text = word().text;
      blanks();
      if (here() == '(') {
        ++at_, blanks();
        if (here() == ')') ++at_;
      }
      return function(n);
    }
    if (keyword == "[[") return test(n);
    simple(n);
  }

  void arithmetic(ShellNode& n) {
    const size_t end = closing_bracket(text_, at_ + 2, '(', ')');
    if (end == std::string_view::npos || end + 1 >= text_.size() || text_[end + 1] != ')')
      refuse(n.line, "(( is not closed", "close it with ))");
    n.kind = ShellKind::arithmetic;
    n.text = text_.substr(at_ + 2, end - at_ - 2);
    count_lines(at_, end), at_ = end + 2;
  }

  void conditions(ShellNode& n) {
    n.kind = ShellKind::if_;
    at_ += 2;
    for (bool more = true; more;) {
      ShellBranch b;
      b.condition = list({"then"});
      demand("then", n.line, "if");
      b.body = list({"elif", "else", "fi"});
      n.branches.push_back(std::move(b));
      more = takes("elif");
    }
    if (takes("else")) n.parts.push_back(list({"fi"}));
    demand("fi", n.line, "if");
  }

  void body(ShellNode& n) {
    for (lines(); here() == ';'; lines()) ++at_;
    if (takes("{")) {  // an old form of bash
      n.parts.push_back(list({"}"}));
      return demand("}", n.line, "{");
    }
    demand("do", n.line, "a loop");
    n.parts.push_back(list({"done"}));
    demand("done", n.line, "a loop");
  }

  void loop(ShellNode& n, const std::string& keyword) {
    at_ += keyword.size();
    blanks();
    if (here() == '(' && here(1) == '(') {
      arithmetic(n);
      n.kind = ShellKind::counted;
      return body(n);
    }
    n.kind = ShellKind::for_;
    n.bare = true;
    n.text = word().text;
    lines();
    if (peek() == "in") {
      at_ += 2;
      n.bare = false;
      for (blanks(); at_ < text_.size() && here() != '\n' && here() != ';'; blanks()) {
        const size_t before = at_;
        n.words.push_back(word());
        if (at_ == before) refuse(line_, fmt::format("'{}' in the words of a loop", here()), "put it in quotes");
      }
    }
    body(n);
  }

  void cases(ShellNode& n) {
    at_ += 4;
    blanks();
    n.kind = ShellKind::case_;
    n.words.push_back(word());
    demand("in", n.line, "case");
    for (;;) {
      lines();
      if (at_ >= text_.size()) refuse(n.line, "case is not closed", "write esac");
      if (peek() == "esac") break;
      ShellBranch b;
      if (here() == '(') ++at_;
      for (;;) {
        blanks();
        b.patterns.push_back(word());
        blanks();
        if (here() != '|') break;
        ++at_;
      }
      if (here() != ')') refuse(line_, "a pattern of case without )", "close it");
      ++at_;
      b.body = list({"esac"});
      for (blanks(); here() == ';' || here() == '&'; blanks()) ++at_;
      n.branches.push_back(std::move(b));
    }
    at_ += 4;
  }

  void function(ShellNode& n) {
    n.kind = ShellKind::function;
    lines();
    n.parts.push_back(command());
  }

  void test(ShellNode& n) {
    n.kind = ShellKind::test;
    at_ += 2;
    for (;;) {
      lines();
      if (at_ >= text_.size()) refuse(n.line, "[[ is not closed", "close it with ]]");
      ShellWord w{.line = line_};
      if (here() == '(' || here() == ')') {
        // After =~ a bracket belongs to the pattern.
        if (!n.words.empty() && n.words.back().text == "=~")
          w = word("()|<>&");
        else
          w.text = text_.substr(at_++, 1);
      } else if ((here() == '&' && here(1) == '&') || (here() == '|' && here(1) == '|')) {
        w.text = text_.substr(at_, 2), at_ += 2;
      } else if (here() == '<' || here() == '>') {
        w.text = text_.substr(at_++, 1);
      } else {
        w = word(!n.words.empty() && n.words.back().text == "=~" ? "()|" : "");
      }
      if (w.text == "]]") return;
      if (w.text.empty()) refuse(line_, fmt::format("'{}' in [[ ]]", here()), "put it in quotes");
      n.words.push_back(std::move(w));
    }
  }

  void simple(ShellNode& n) {
    n.kind = ShellKind::simple;
    bool declares = false, first = true;  // first: all words so far were assignments
    for (;;) {
      blanks();
      if (at_ >= text_.size()) return;
      const char c = here();
      if (c == '\n' || c == ';' || c == '|' || c == ')' || (c == '&' && here(1) != '>')) return;
      if (redirect(n.redirects)) continue;
      if (c == '(') {
        const size_t close = text_.find_first_not_of(" \t", at_ + 1);
        if (n.words.size() != 1 || close == std::string_view::npos || text_[close] != ')')
          refuse(line_, "'(' in a command", "put it in quotes");
        n.text = n.words[0].text;
        n.words.clear();
        at_ = close + 1;
        return function(n);
      }
      ShellWord w = word();
      const size_t value = assigned_at(w.text);
      if (value > 0 && value == w.text.size() && here() == '(' && (first || declares)) array(w);
      if (first && value == 0)
        first = false, declares = w.text == "export" || w.text == "declare" || w.text == "local" || w.text == "readonly" ||
                                  w.text == "typeset";
      n.words.push_back(std::move(w));
    }
  }

  struct Document {
    std::shared_ptr<ShellRedirect> into;
    std::string end;
    bool tabs;
  };
  std::string_view text_;
  std::string name_;
  size_t at_ = 0;
  int line_, depth_ = 0;
  std::vector<Document> documents_;
};

}  // namespace

size_t assigned_at(std::string_view word) {
  size_t at = 0;
  while (at < word.size() && (is_name_letter(word[at]) || (at > 0 && word[at] >= '0' && word[at] <= '9'))) ++at;
  if (at == 0 || at >= word.size()) return 0;
  if (word[at] == '[') {
    const size_t close = word.find(']', at);
    if (close == std::string_view::npos || close + 1 >= word.size()) return 0;
    at = close + 1;
  }
  if (word[at] == '=') return at + 1;
  return word.substr(at).starts_with("+=") ? at + 2 : 0;
}

ShellNodePtr parse_shell(std::string_view text, const std::string& name, int line) {
  return ShellParser(text, name, line).whole();
}

}  // namespace ravine
