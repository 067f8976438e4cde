// Formats the explanation of a translation as a table.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "dialects/dialect.h"

namespace ravine {
namespace {

constexpr size_t kLeast = 24;  // minimum width of the last column, in letters

size_t letters(const std::string& text) {  // counts the bytes that begin a UTF-8 character
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string value_words(const Json& value) {
  if (value.is_null()) return "";
  return escaped(value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

// Splits a text into lines of at most `width` letters; a longer word gets a separate line.
std::vector<std::string> wrapped(const std::string& text, size_t width) {
  std::vector<std::string> lines(1);
  for (const std::string& word : split(text, ' ')) {
    if (!lines.back().empty() && letters(lines.back()) + 1 + letters(word) > width) lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + word;
  }
  return lines;
}

void pad(std::string& line, size_t to) { line.append(to - std::min(to, letters(line)), ' '); }

}  // namespace

std::string explanation_table(const Translation& translation, size_t width) {
  struct Row {
    std::string key, value, description;
  };
  const std::pair<KeyStatus, const char*> kGroups[] = {{KeyStatus::refused, "refused"},
                                                       {KeyStatus::used, "used: the option that the key leads to"},
                                                       {KeyStatus::standard, "without a value: the default counts"},
                                                       {KeyStatus::inert, "inert: why the key has no effect"},
                                                       {KeyStatus::derived, "derived from several keys"}};
  const std::vector<ExplainedKey> lines = translation.lines();
  size_t keys = 0, values = 0;
  for (const ExplainedKey& line : lines) {
    if (line.status == KeyStatus::derived) continue;
    keys = std::max(keys, letters(escaped(line.key))), values = std::max(values, letters(value_words(line.value)));
  }
  keys = std::min(keys, width * 2 / 5), values = std::min(values, width / 4);
  const size_t description_column = 2 + keys + 2 + values + 2,
               rest = std::max(kLeast, width > description_column ? width - description_column : 0);
  std::string out;
  for (const auto& [status, title] : kGroups) {
    std::vector<Row> rows;
    for (const ExplainedKey& line : lines) {
      if (line.status != status) continue;
      const bool derived = status == KeyStatus::derived;
      rows.push_back({escaped(line.key), derived ? "" : value_words(line.value),
                      escaped(derived                     ? value_words(line.value)
                              : status == KeyStatus::used ? line.option
                                                          : line.reason)});
    }
    if (rows.empty()) continue;
    out += fmt::format("{}{} ({})\n", out.empty() ? "" : "\n", title, rows.size());
    for (const Row& row : rows) {
      std::string line = "  " + row.key;
      const auto next_column = [&](size_t at) {  // a text that is wider than its column gets a separate line
        if (letters(line) + 2 > at) out += line + "\n", line.clear();
        pad(line, at);
      };
      if (!row.value.empty()) next_column(2 + keys + 2), line += row.value;
      for (const std::string& text : wrapped(row.description, rest)) {
        if (text.empty()) continue;
        next_column(description_column), line += text;
      }
      out += line + "\n";
    }
  }
  return out;
}

}  // namespace ravine
