// Regular expressions of tokenizer files. They are written for Oniguruma with Ruby's syntax; here PCRE2 runs them.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;
struct pcre2_real_jit_stack_8;

namespace ravine {

constexpr size_t kRegexSteps = 256;  // that all searches of one text may take per byte of it

struct RegexWork {
  size_t steps = 0, most = 0, last = 0;
};

// What a search needs while it runs; one thread at a time.
class RegexScratch {
 public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(const RegexScratch&) = delete;
  RegexScratch& operator=(const RegexScratch&) = delete;
  void start(std::string_view text);  // before the first search of a text: its work is counted from here

 private:
  friend class Regex;
  pcre2_real_match_data_8* data_;
  pcre2_real_match_context_8* context_;
  pcre2_real_jit_stack_8* stack_;
  RegexWork work_;
};

class Regex {
 public:
  // Syntax that PCRE2 would read otherwise is translated (\h, ^ and $ at lines, (?m), {n,m}+, classes of Unicode 16) or refused
  // with a UserError that names `where`.
  Regex(std::string_view pattern, const std::string& where);
  // The first match at or after `from` in valid UTF-8; false if there is none. Searches of one text that take more than
  // kRegexSteps steps per byte of it are a UserError that names the pattern: backtracking may take the square of the text, or
  // worse.
  bool find(std::string_view text, size_t from, RegexScratch& scratch, size_t& begin, size_t& end) const;

 private:
  struct Free {
    void operator()(pcre2_real_code_8* code) const;
  };
  std::unique_ptr<pcre2_real_code_8, Free> code_;
  std::string where_, shown_;
};

// Walks the matches as Rust's onig::FindMatches: none that is empty right behind the one before. Calls f(begin, end).
template <class F>
void each_match(const Regex& regex, std::string_view text, RegexScratch& scratch, F&& f) {
  size_t from = 0, last = SIZE_MAX, begin = 0, end = 0;
  scratch.start(text);
  while (from <= text.size() && regex.find(text, from, scratch, begin, end)) {
    if (begin == end && end == last) {
      ++from;
      while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xc0) == 0x80) ++from;
      continue;
    }
    from = last = end;
    f(begin, end);
  }
}

}  // namespace ravine
