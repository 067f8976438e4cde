// Regular expressions of tokenizer files, written for Oniguruma with Ruby's syntax. PCRE2 runs them.
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

constexpr size_t kRegexSteps = 256;  // limit of the steps of all searches of a text, per byte of the text

// The work of all searches of one text. steps: taken so far; most: their limit; last: the last position in the text.
struct RegexWork {
  size_t steps = 0, most = 0, last = 0;
};

// The memory and the count of work that Regex::find() needs. Each thread has its own.
class RegexScratch {
 public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(const RegexScratch&) = delete;
  RegexScratch& operator=(const RegexScratch&) = delete;
  void start(std::string_view text);  // called before the first search of a text: sets the count of its work to 0

 private:
  friend class Regex;
  pcre2_real_match_data_8* data_;
  pcre2_real_match_context_8* context_;
  pcre2_real_jit_stack_8* stack_;
  RegexWork work_;
};

// A compiled regular expression of a tokenizer file, in Oniguruma's syntax. Const members are thread-safe.
class Regex {
 public:
  // Compiles a pattern. Syntax with another meaning in PCRE2 is translated (\h, ^ and $ at lines, (?m), {n,m}+, classes
  // of Unicode 16), or is a UserError that names `where`.
  Regex(std::string_view pattern, const std::string& where);
  // Finds the first match at or after `from` in valid UTF-8: text [begin, end). False if there is none. If the searches
  // of a text take more than kRegexSteps steps per byte, a UserError names the pattern: backtracking may take quadratic
  // time or more.
  bool find(std::string_view text, size_t from, RegexScratch& scratch, size_t& begin, size_t& end) const;

 private:
  struct Free {
    void operator()(pcre2_real_code_8* code) const;
  };
  std::unique_ptr<pcre2_real_code_8, Free> code_;
  std::string where_, shown_;
};

// Calls f(begin, end) for each match of a regular expression in a text, in order and without overlaps. As in Rust's
// onig::FindMatches, an empty match directly after the previous match is skipped.
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
