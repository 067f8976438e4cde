#include "text/jinja/cases.h"

#include <unicode/uchar.h>
#include <unicode/ustring.h>

#include <algorithm>

#include "text/unicode/unicode.h"

namespace ravine::jinja {

namespace {

constexpr char32_t kSigma = 0x3a3, kSmallSigma = 0x3c3, kFinalSigma = 0x3c2;

bool is_ignored(char32_t c) { return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_CASE_IGNORABLE) != 0; }
bool is_cased(char32_t c) { return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_CASED) != 0; }

// Counts the work of a case mapping in the budget. Characters beyond ASCII use a table of ICU.
void count_case(std::string_view s, Budget& budget) {
  budget.chars(s.size() + 32 * static_cast<size_t>(std::count_if(s.begin(), s.end(),
                                                                 [](char c) { return static_cast<signed char>(c) < -64; })));
  budget.bytes(s.size());
}

// Calls f(c, low, text) for each character: the character, its lower case, and its bytes.
template <class F>
void each_lower(std::string_view s, Budget& budget, F&& f) {
  count_case(s, budget);
  const bool sigma = s.find("\u03a3") != std::string_view::npos;
  bool word = false;  // the last character that is not ignored is cased
  std::string low;
  for (size_t at = 0; at < s.size();) {
    const size_t from = at;
    const char32_t c = next_char(s, at);
    low.clear();
    if (c == kSigma) {
      char32_t behind = 0;
      for (size_t next = at; next < s.size() && is_ignored(behind = next_char(s, next));) behind = 0;
      append_utf8(low, word && !is_cased(behind) ? kFinalSigma : kSmallSigma);
    } else {
      append_lower(low, c);
    }
    if (sigma && !is_ignored(c)) word = is_cased(c);
    f(c, low, s.substr(from, at - from));
  }
}

}  // namespace

std::string upper_case(std::string_view s, Budget& budget) {
  count_case(s, budget);
  std::string out;
  for (size_t at = 0; at < s.size();) append_upper(out, next_char(s, at));
  return out;
}

std::string lower_case(std::string_view s, Budget& budget) {
  std::string out;
  each_lower(s, budget, [&](char32_t, const std::string& low, std::string_view) { out += low; });
  return out;
}

std::string capitalized(std::string_view s, Budget& budget) {
  std::string out;
  each_lower(s, budget, [&](char32_t c, const std::string& low, std::string_view) {
    if (out.empty())
      append_upper(out, c);
    else
      out += low;
  });
  return out;
}

std::string title_case(std::string_view s, Budget& budget) {
  std::string out, up;
  bool before = false;
  each_lower(s, budget, [&](char32_t c, const std::string& low, std::string_view) {
    up.clear();
    append_upper(up, c);
    out += before ? low : up;
    before = up != low;
  });
  return out;
}

std::string swapped_case(std::string_view s, Budget& budget) {
  std::string out;
  each_lower(s, budget, [&](char32_t c, const std::string& low, std::string_view as_it_is) {
    if (as_it_is == low)
      append_upper(out, c);
    else
      out += low;
  });
  return out;
}

std::string folded_case(std::string_view s, Budget& budget) {
  count_case(s, budget);
  std::string out;
  for (size_t at = 0; at < s.size();) {
    UChar from[2], to[8];
    int32_t n = 0;
    const auto c = static_cast<UChar32>(next_char(s, at));
    U16_APPEND_UNSAFE(from, n, c);
    UErrorCode error = U_ZERO_ERROR;
    n = u_strFoldCase(to, 8, from, n, U_FOLD_CASE_DEFAULT, &error);
    require(U_SUCCESS(error), "unicode: {}", u_errorName(error));
    for (int32_t i = 0; i < n;) {
      UChar32 u;
      U16_NEXT(to, i, n, u);
      append_utf8(out, static_cast<char32_t>(u));
    }
  }
  return out;
}

}  // namespace ravine::jinja
