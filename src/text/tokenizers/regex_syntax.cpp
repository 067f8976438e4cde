#include "text/tokenizers/regex_syntax.h"

#include <fmt/format.h>

#include "base/cut_text.h"
#include "base/error.h"
#include "text/unicode/unicode_delta.h"

namespace ravine {

namespace {

constexpr std::string_view kWhiteSpace =
    "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";

// The characters that \w matches in Oniguruma.
std::string word_class() {
  std::string s =
      "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}"
      "\\x{1f170}-\\x{1f189}";
  for (const char* kind : {"L", "M", "Nd", "Nl", "Pc"}) s += delta_ranges(kind);
  return s;
}

class Translator {
 public:
  Translator(std::string_view pattern, const std::string& where) : p_(pattern), where_(where) {}

  std::string run(bool* counted) {
    while (at_ < p_.size()) step();
    *counted = !extended_ && p_.size() <= 1024;  // in a long pattern much work may be between repetitions
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw UserError("regular expression is not understood", where_,
                    fmt::format("{} in '{}' is not supported", what, shown_text(p_)),
                    "report the tokenizer, or rewrite the expression");
  }
  char peek(size_t ahead = 0) const { return at_ + ahead < p_.size() ? p_[at_ + ahead] : '\0'; }

  void step() {
    char c = p_[at_];
    switch (c) {
      case '\\':
        begin_atom();
        escape(false);
        return;
      case '[':
        begin_atom();
        bracket();
        return;
      case '(':
        group_starts_.push_back(out_.size());
        open_group();
        return;
      case ')':
        if (!group_starts_.empty()) {
          atom_ = group_starts_.back();
          group_starts_.pop_back();
        }
        group_ended_ = true;
        break;
      case '{':
        if (size_t end = interval(); end > 0) {
          std::string_view text = p_.substr(at_, end - at_);
          if (text.starts_with("{,")) {
            out_ += "{0";
            out_ += text.substr(1);
          } else {
            out_ += text;
          }
          at_ = end;
          if (peek() == '+') {  // not possessive here: the counted group, repeated
            out_.insert(atom_, "(?:");
            out_ += ")+";
            ++at_;
            return count();
          }
          if (group_ended_ || text.ends_with(",}") || text.size() > 6) count();  // otherwise few steps, for any text
          return;
        }
        out_ += "\\{";
        ++at_;
        return;
      case '?':
      case '*':
      case '+':
        out_ += c;
        ++at_;
        if (c != '?' || group_ended_) count();
        return;
      default:
        if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) begin_atom();
    }
    out_ += c;
    ++at_;
  }

  void begin_atom() {
    atom_ = out_.size();
    group_ended_ = false;
  }

  // A repeated atom is between two callouts, with which regex.cpp counts the work of a search.
  void count() {
    if (peek() == '?' || peek() == '+') out_ += p_[at_++];  // lazy or possessive
    if (extended_) return;
    out_.insert(atom_, "(?C)");
    out_ += "(?C)";
  }

  // Returns the end of {n}, {n,}, {,m} or {n,m} at the current position, or 0.
  size_t interval() const {
    size_t i = at_ + 1, digits = 0, commas = 0;
    for (; i < p_.size() && p_[i] != '}'; ++i) {
      if (p_[i] == ',')
        ++commas;
      else if (p_[i] >= '0' && p_[i] <= '9')
        ++digits;
      else
        return 0;
    }
    return i < p_.size() && digits > 0 && commas <= 1 ? i + 1 : 0;
  }

  void open_group() {
    out_ += '(';
    ++at_;
    if (peek() != '?') return;
    char kind = peek(1);
    if (kind == ':' || kind == '=' || kind == '!' || kind == '>' || kind == '<') {
      out_ += p_.substr(at_, 2);
      at_ += 2;
      return;
    }
    if (kind == '#') {
      size_t end = p_.find(')', at_);
      if (end == std::string_view::npos) refuse("a comment without end");
      out_.pop_back();
      group_starts_.pop_back();
      at_ = end + 1;
      return;
    }
    std::string flags = "?";
    for (++at_; peek() != ':' && peek() != ')'; ++at_) {
      switch (peek()) {
        case 'x':
          extended_ = true;
          [[fallthrough]];
        case 'i':
        case '-':
          flags += peek();
          break;
        case 'm':
          flags += 's';  // Ruby's m lets '.' match a line end
          break;
        default:
          refuse(fmt::format("the group (?{}", p_.substr(at_, 8)));
      }
    }
    out_ += flags;
  }

  void add_property(std::string_view name, bool negated, bool in_class) {
    while (!name.empty() && name[0] == '^') {
      negated = !negated;
      name.remove_prefix(1);
    }
    std::string_view known = pcre_property(name);
    if (known.empty()) refuse(fmt::format("the property '{}'", name));
    std::string more = delta_ranges(known);
    std::string_view sign = negated ? "P" : "p";
    if (more.empty()) {
      out_ += fmt::format("\\{}{{{}}}", sign, known);
    } else if (!in_class) {
      out_ += fmt::format("[{}\\p{{{}}}{}]", negated ? "^" : "", known, more);
    } else if (!negated) {
      out_ += fmt::format("\\p{{{}}}{}", known, more);
    } else {
      refuse("a negated property inside a class");
    }
  }

  void add_set(std::string_view inside, bool negated, bool in_class) {
    if (in_class && negated) refuse("a negated class inside a class");
    if (in_class)
      out_ += inside;
    else
      out_ += fmt::format("[{}{}]", negated ? "^" : "", inside);
  }

  void escape(bool in_class) {
    char c = peek(1);
    at_ += 2;
    switch (c) {
      case '\0':
        if (at_ > p_.size()) refuse("a backslash at the end");
        refuse("a NUL");
      case 'p':
      case 'P': {
        size_t end = p_.find('}', at_);
        if (peek() != '{' || end == std::string_view::npos) refuse("\\p without {..}");
        add_property(p_.substr(at_ + 1, end - at_ - 1), c == 'P', in_class);
        at_ = end + 1;
        return;
      }
      case 's':
      case 'S':
        return add_set(kWhiteSpace, c == 'S', in_class);
      case 'd':
      case 'D':
        return add_property("Nd", c == 'D', in_class);
      case 'w':
      case 'W':
        return add_set(word_class(), c == 'W', in_class);
      case 'h':
      case 'H':
        return add_set("0-9a-fA-F", c == 'H', in_class);
      case 'u': {
        std::string_view hex = p_.substr(at_, 4);
        if (hex.size() != 4 || hex.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos)
          refuse("\\u without 4 digits");
        out_ += fmt::format("\\x{{{}}}", hex);
        at_ += 4;
        return;
      }
      case 'x':
        out_ += "\\x";
        return;
      case 'b':
      case 'B':
        if (!in_class) refuse(fmt::format("\\{}", c));
        [[fallthrough]];
      case 'A':
      case 'z':
      case 'Z':
      case 'n':
      case 'r':
      case 't':
      case 'f':
      case 'e':
        out_ += '\\';
        out_ += c;
        return;
      case 'v':
        out_ += "\\x0b";
        return;
      default:
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) refuse(fmt::format("\\{}", c));
        if (static_cast<unsigned char>(c) >= 0x80) {  // a character that needs no escape
          out_ += c;
          return;
        }
        out_ += '\\';
        out_ += c;
    }
  }

  void bracket() {
    out_ += '[';
    ++at_;
    if (peek() == '^') {
      out_ += '^';
      ++at_;
    }
    if (peek() == ']') {
      out_ += "\\]";
      ++at_;
    }
    while (at_ < p_.size() && p_[at_] != ']') {
      if (p_[at_] == '\\') {
        escape(true);
        continue;
      }
      if (p_[at_] == '[') refuse(peek(1) == ':' ? "a POSIX class" : "a class inside a class");
      if (p_[at_] == '&' && peek(1) == '&') refuse("&& in a class");
      out_ += p_[at_++];
    }
    if (at_ >= p_.size()) refuse("a class without ]");
    out_ += ']';
    ++at_;
  }

  std::string_view p_;
  const std::string& where_;
  std::string out_;
  size_t at_ = 0;
  size_t atom_ = 0;           // start of the last atom in out_
  bool group_ended_ = false;  // the atom is a group
  bool extended_ = false;     // white space may be between an atom and its repetition
  std::vector<size_t> group_starts_;
};

}  // namespace

std::string translate_regex(std::string_view pattern, const std::string& where, bool* counted) {
  return Translator(pattern, where).run(counted);
}

}  // namespace ravine
