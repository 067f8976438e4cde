#include "dialects/shell_test.h"

#include <regex.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>

namespace ravine {
namespace {

namespace fs = std::filesystem;
using Truth = std::optional<bool>;

class ShellTest {
 public:
  ShellTest(const std::vector<ExpandedWord>& words, bool patterns) : words_(words), patterns_(patterns) {}

  Truth value() {
    if (words_.empty()) return false;
    const Truth v = any(0);
    return at_ == words_.size() ? v : Truth();
  }

 private:
  bool takes(const char* a, const char* b) {
    if (at_ >= words_.size() || (words_[at_].text != a && words_[at_].text != b)) return false;
    return ++at_, true;
  }

  Truth any(int depth) {
    Truth v = every(depth);
    while (takes("||", "-o")) {
      const Truth w = every(depth);
      v = (v && *v) || (w && *w) ? Truth(true) : v && w ? Truth(false) : Truth();
    }
    return v;
  }
  Truth every(int depth) {
    Truth v = one(depth);
    while (takes("&&", "-a")) {
      const Truth w = one(depth);
      v = (v && !*v) || (w && !*w) ? Truth(false) : v && w ? Truth(true) : Truth();
    }
    return v;
  }

  Truth one(int depth) {
    if (at_ >= words_.size() || depth > kDeepestShell) return {};
    const size_t left = words_.size() - at_;
    if (left > 1 && words_[at_].text == "!") {
      ++at_;
      const Truth v = one(depth + 1);
      return v ? Truth(!*v) : v;
    }
    if (left > 2 && words_[at_].text == "(") {
      ++at_;
      const Truth v = any(depth + 1);
      return takes(")", ")") ? v : Truth();
    }
    if (left > 2 && is_binary(words_[at_ + 1].text)) {
      at_ += 3;
      return compared(words_[at_ - 3], words_[at_ - 2].text, words_[at_ - 1]);
    }
    if (left > 1 && words_[at_].text.size() == 2 && words_[at_].text[0] == '-') {
      at_ += 2;
      return file_test(words_[at_ - 2].text[1], words_[at_ - 1]);
    }
    const ExpandedWord& w = words_[at_++];
    return w.problem ? Truth() : Truth(!w.text.empty());
  }

  static bool is_binary(const std::string& sign) {
    for (const char* known : {"=", "==", "!=", "<", ">", "=~", "-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
      if (sign == known) return true;
    return false;
  }

  Truth compared(const ExpandedWord& a, const std::string& sign, const ExpandedWord& b) const {
    if (a.problem || b.problem) return {};
    if (sign == "=~") return matches(a.text, b.text);
    if (sign == "=" || sign == "==" || sign == "!=") {
      const bool same = patterns_ ? fits_shell_pattern(b.text, a.text) : a.text == b.text;
      return same == (sign != "!=");
    }
    if (sign == "<" || sign == ">") return sign == "<" ? a.text < b.text : a.text > b.text;
    int64_t x = 0, y = 0;
    if (!number(a.text, x) || !number(b.text, y)) return {};
    return sign == "-eq"   ? x == y
           : sign == "-ne" ? x != y
           : sign == "-lt" ? x < y
           : sign == "-le" ? x <= y
           : sign == "-gt" ? x > y
                           : x >= y;
  }

  // Searches for an extended regular expression, by the C library's functions as bash does. Returns nothing if it is
  // invalid or long, or if it refers back to a group, which can take exponential time.
  static Truth matches(const std::string& text, const std::string& pattern) {
    if (text.size() > 256 || pattern.size() > 128) return {};
    for (size_t i = 0; i + 1 < pattern.size(); ++i)
      if (pattern[i] == '\\' && pattern[i + 1] >= '1' && pattern[i + 1] <= '9') return {};
    regex_t compiled;
    if (::regcomp(&compiled, pattern.c_str(), REG_EXTENDED | REG_NOSUB) != 0) return {};
    const int result = ::regexec(&compiled, text.c_str(), 0, nullptr, 0);
    ::regfree(&compiled);
    return result == 0 ? Truth(true) : result == REG_NOMATCH ? Truth(false) : Truth();
  }

  static bool number(const std::string& text, int64_t& out) {
    if (text.empty()) return out = 0, true;  // as in [[ ]]
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    return error == std::errc() && end == text.data() + text.size();
  }

  static Truth file_test(char what, const ExpandedWord& w) {
    if (w.problem) return {};
    std::error_code ec;
    if (w.text.ends_with(".py") && std::string_view("efsrx").find(what) != std::string_view::npos)
      return true;  // the launched program is assumed to exist
    switch (what) {
      case 'z':
        return w.text.empty();
      case 'n':
        return !w.text.empty();
      case 'e':
        return fs::exists(w.text, ec);
      case 'f':
        return fs::is_regular_file(w.text, ec);
      case 'd':
        return fs::is_directory(w.text, ec);
      case 's':
        return fs::is_regular_file(w.text, ec) && fs::file_size(w.text, ec) > 0;
      case 'L':
      case 'h':
        return fs::is_symlink(w.text, ec);
      case 'r':
        return ::access(w.text.c_str(), R_OK) == 0;
      case 'w':
        return ::access(w.text.c_str(), W_OK) == 0;
      case 'x':
        return ::access(w.text.c_str(), X_OK) == 0;
      default:
        return {};
    }
  }

  const std::vector<ExpandedWord>& words_;
  bool patterns_;
  size_t at_ = 0;
};

}  // namespace

std::optional<bool> shell_test(const std::vector<ExpandedWord>& words, bool patterns) {
  return ShellTest(words, patterns).value();
}

}  // namespace ravine
