#include "config/yaml_slips.h"

#include <cctype>

#include "base/byte_order_mark.h"
#include "base/look_alike.h"
#include "base/text.h"

namespace ravine {
namespace {

// Returns the text with each full-width colon replaced by a colon and a blank.
std::string with_plain_colons(std::string_view text) {
  static constexpr std::string_view kColon = "\xEF\xBC\x9A";
  std::string out;
  for (size_t at; (at = text.find(kColon)) != std::string_view::npos;) {
    out += std::string(text.substr(0, at)) + ":";
    text.remove_prefix(at + kColon.size());
    if (!text.empty() && !with_plain_characters(text.substr(0, 3)).starts_with(' ')) out += ' ';
  }
  return with_plain_characters(out + std::string(text));
}

// Returns the part of the line that is YAML syntax: without quoted texts and comments.
std::string bare_part(std::string_view line) {
  std::string out;
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote) {
      if (c == '\\' && quote == '"')
        ++i;
      else if (c == quote)
        quote = 0;
    } else if ((c == '"' || c == '\'') && (i == 0 || std::string_view(" [{,:").find(line[i - 1]) != std::string_view::npos)) {
      quote = c;
    } else if (c == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) {
      break;
    } else {
      out += c;
    }
  }
  return out;
}

std::string trimmed(const std::string& s) {
  const size_t from = s.find_first_not_of(" \t\r\n"), to = s.find_last_not_of(" \t\r\n");
  return from == std::string::npos ? "" : s.substr(from, to - from + 1);
}

}  // namespace

std::pair<std::string, std::string> key_and_value(std::string_view text) {
  const std::string plain = trimmed(with_plain_colons(text));
  size_t key = 0;
  while (key < plain.size() && (std::isalnum(static_cast<unsigned char>(plain[key])) || plain[key] == '_' || plain[key] == '-'))
    ++key;
  size_t value = key;
  while (value < plain.size() && std::string_view(" \t:=").find(plain[value]) != std::string_view::npos) ++value;
  if (key == 0 || value == key || value == plain.size()) return {};
  size_t end = value;
  while (end < plain.size() && plain[end] != ' ' && plain[end] != '\n') ++end;
  return {plain.substr(0, key), plain.substr(value, end - value)};
}

LookAlikeLine find_dash_line(std::string_view yaml) {
  int number = 0;
  for (const std::string& line : split(yaml, '\n')) {
    ++number;
    const std::string words = trimmed(bare_part(line));
    if (words.size() > 1 && words[0] == '-' && words[1] != '-' && words[1] != ' ' && words.find(": ") == std::string::npos)
      return {number, "a blank stands between the '-' of a list and what it lists", "- " + words.substr(1)};
  }
  return {};
}

LookAlikeLine find_look_alike_line(std::string_view yaml) {
  int number = 0;
  for (const std::string& line : split(yaml, '\n')) {
    ++number;
    if (number == 1 && line.starts_with(kByteOrderMark)) continue;
    if (std::string what = look_alike(bare_part(line)); !what.empty())
      return {number, std::move(what), trimmed(with_plain_colons(line))};
  }
  return {};
}

}  // namespace ravine
