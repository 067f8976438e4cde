#include "text/unicode/unicode_delta.h"

#include <fmt/format.h>

namespace ravine {

namespace {

struct DeltaRange {
  char32_t first, last;
  const char* kind;
};
#include "text/unicode/unicode_delta_table.inc"

struct Property {
  std::string_view name, pcre;
};
// Names in lower case without '_', ' ' and '-'.
constexpr Property kProperties[] = {
    {"l", "L"},
    {"letter", "L"},
    {"lu", "Lu"},
    {"uppercaseletter", "Lu"},
    {"ll", "Ll"},
    {"lowercaseletter", "Ll"},
    {"lt", "Lt"},
    {"titlecaseletter", "Lt"},
    {"lm", "Lm"},
    {"modifierletter", "Lm"},
    {"lo", "Lo"},
    {"otherletter", "Lo"},
    {"m", "M"},
    {"mark", "M"},
    {"combiningmark", "M"},
    {"mn", "Mn"},
    {"nonspacingmark", "Mn"},
    {"mc", "Mc"},
    {"spacingmark", "Mc"},
    {"me", "Me"},
    {"enclosingmark", "Me"},
    {"n", "N"},
    {"number", "N"},
    {"nd", "Nd"},
    {"decimalnumber", "Nd"},
    {"nl", "Nl"},
    {"letternumber", "Nl"},
    {"no", "No"},
    {"othernumber", "No"},
    {"p", "P"},
    {"punctuation", "P"},
    {"pc", "Pc"},
    {"connectorpunctuation", "Pc"},
    {"pd", "Pd"},
    {"dashpunctuation", "Pd"},
    {"ps", "Ps"},
    {"openpunctuation", "Ps"},
    {"pe", "Pe"},
    {"closepunctuation", "Pe"},
    {"pi", "Pi"},
    {"initialpunctuation", "Pi"},
    {"pf", "Pf"},
    {"finalpunctuation", "Pf"},
    {"po", "Po"},
    {"otherpunctuation", "Po"},
    {"s", "S"},
    {"symbol", "S"},
    {"sm", "Sm"},
    {"mathsymbol", "Sm"},
    {"sc", "Sc"},
    {"currencysymbol", "Sc"},
    {"sk", "Sk"},
    {"modifiersymbol", "Sk"},
    {"so", "So"},
    {"othersymbol", "So"},
    {"z", "Z"},
    {"separator", "Z"},
    {"zs", "Zs"},
    {"spaceseparator", "Zs"},
    {"zl", "Zl"},
    {"lineseparator", "Zl"},
    {"zp", "Zp"},
    {"paragraphseparator", "Zp"},
    {"cc", "Cc"},
    {"cf", "Cf"},
    {"format", "Cf"},
    {"co", "Co"},
    {"privateuse", "Co"},
    {"han", "sc:Han"},
    {"hiragana", "sc:Hiragana"},
    {"katakana", "sc:Katakana"},
    {"hangul", "sc:Hangul"},
    {"cyrillic", "sc:Cyrillic"},
    {"greek", "sc:Greek"},
    {"latin", "sc:Latin"},
    {"arabic", "sc:Arabic"},
    {"thai", "sc:Thai"},
    {"hebrew", "sc:Hebrew"},
    {"devanagari", "sc:Devanagari"},
};

}  // namespace

std::string_view pcre_property(std::string_view name) {
  std::string plain;
  for (char c : name) {
    if (c == '_' || c == ' ' || c == '-') continue;
    plain += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  }
  for (const auto& p : kProperties)
    if (p.name == plain) return p.pcre;
  return {};
}

std::string delta_ranges(std::string_view property) {
  std::string out;
  auto add = [&](const DeltaRange& r) {
    out += fmt::format("\\x{{{:x}}}", static_cast<uint32_t>(r.first));
    if (r.last != r.first) out += fmt::format("-\\x{{{:x}}}", static_cast<uint32_t>(r.last));
  };
  if (property.starts_with("sc:")) {
    for (const auto& r : kScriptDelta)
      if (property.substr(3) == r.kind) add(r);
  } else {
    for (const auto& r : kCategoryDelta)
      if (std::string_view(r.kind).starts_with(property)) add(r);
  }
  return out;
}

void each_category_delta(const std::function<void(char32_t, char32_t, std::string_view)>& f) {
  for (const auto& r : kCategoryDelta) f(r.first, r.last, r.kind);
}

}  // namespace ravine
