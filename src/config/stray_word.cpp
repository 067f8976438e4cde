#include "config/stray_word.h"

#include <fmt/format.h>

#include <string_view>

#include "base/look_alike.h"
#include "base/shell_word.h"

namespace ravine {
namespace {

std::string without_typographic_quotes(std::string word) {
  for (const std::string_view quote : {"\u201c", "\u201d", "\u2018", "\u2019"}) {
    if (word.starts_with(quote)) word.erase(0, quote.size());
    if (word.ends_with(quote)) word.resize(word.size() - quote.size());
  }
  return word;
}

int64_t depth_of(std::string_view word) {
  int64_t depth = 0;
  for (const char c : word) depth += (c == '[' || c == '{') - (c == ']' || c == '}');
  return depth;
}

}  // namespace

std::string spelled_otherwise(const std::string& word, const NameThere& is_name) {
  if (const std::string bare = without_typographic_quotes(word); bare != word && is_name(bare.substr(0, bare.find('='))))
    return "quotes of a shell are straight: write " + shell_word(bare);
  const std::string strange = look_alike(word);
  std::string plain = with_plain_characters(word);
  if (!strange.empty() && plain.size() > 1 && plain[0] == '-' && plain[1] != '-')
    plain = "-" + plain;  // word processors turn two dashes into one
  if (!strange.empty() && is_name(plain.substr(0, plain.find('='))))
    return fmt::format("{}: write {}", strange, shell_word(plain));
  const size_t equals = plain.find('=');
  if (equals == std::string::npos || equals == 0) return "";
  std::string name = plain.substr(0, equals);
  while (!name.empty() && std::string_view(":+ ").find(name.back()) != std::string_view::npos) name.pop_back();
  for (char& c : name) c = c == ':' || c == '/' ? '.' : static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return is_name(name) ? fmt::format("write {}={}", name, shell_word(plain.substr(equals + 1))) : "";
}

std::string value_cut_at_blanks(const std::vector<std::string>& words, size_t first) {
  int64_t depth = depth_of(words[first]);
  if (depth <= 0) return "";
  std::string whole = words[first];
  for (size_t i = first + 1; i < words.size() && depth > 0; ++i) {
    whole += " " + words[i];
    depth += depth_of(words[i]);
  }
  return whole;
}

}  // namespace ravine
