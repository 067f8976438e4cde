// From Oniguruma's syntax to PCRE2's. Oniguruma itself is not used: the Unicode tables of its versions are older than those of
// the Hugging Face library (6.9.8: 9272 letters, 120 numbers, 93 marks differ: tools/golden/compare_oniguruma.py), so ids would
// differ. PCRE2 with the tables of text/unicode/ agrees with the library on every code point.
#pragma once
#include <string>
#include <string_view>

namespace ravine {

// The same expression for PCRE2 with UTF, UCP, MULTILINE and a line end of '\n'. What cannot be translated is a UserError that
// names `where`.
// `counted`: repetitions stand between callouts (?C); false where the caller must have PCRE2 place them.
std::string translate_regex(std::string_view pattern, const std::string& where, bool* counted);

}  // namespace ravine
