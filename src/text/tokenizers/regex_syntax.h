// Translates Oniguruma's syntax to PCRE2's. Oniguruma is not used: its Unicode tables are older than Hugging Face's, so
// ids would differ (6.9.8: 9272 letters, 120 numbers, 93 marks differ; tools/golden/compare_oniguruma.py). PCRE2 with
// the tables of text/unicode/ agrees with the library on every code point.
#pragma once
#include <string>
#include <string_view>

namespace ravine {

// Translates a regular expression of Oniguruma to one for PCRE2 with UTF, UCP, MULTILINE and a line end of '\n'. Syntax
// without a translation is a UserError that names `where`. counted: receives true if the result has callouts (?C)
// around repetitions, to count the work; if false, the caller must let PCRE2 place the callouts.
std::string translate_regex(std::string_view pattern, const std::string& where, bool* counted);

}  // namespace ravine
