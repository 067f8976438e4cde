// From Oniguruma's syntax to PCRE2's.
#pragma once
#include <string>
#include <string_view>

namespace ravine {

// The same expression for PCRE2 with UTF, UCP, MULTILINE and a line end of '\n'. What cannot be translated is a UserError that
// names `where`.
// `counted`: repetitions stand between callouts (?C); false where the caller must have PCRE2 place them.
std::string translate_regex(std::string_view pattern, const std::string& where, bool* counted);

}  // namespace ravine
