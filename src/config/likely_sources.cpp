#include "config/likely_sources.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/yaml.h"

namespace ravine {

std::string likely_sources(const std::vector<std::string>& words) {
  auto is_number = [](const std::string& word) {
    const YamlNode::Kind kind = resolve_scalar(word).kind;
    return kind == YamlNode::Kind::integer || kind == YamlNode::Kind::real;
  };
  if (words.size() < 2) return "";
  const bool weighted = words.size() % 2 == 0 && is_number(words[0]);
  std::vector<std::string> items;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool weight = weighted && i % 2 == 0;
    if (is_number(words[i]) != weight) return "";
    if (!weight) items.push_back(weighted ? fmt::format("{{path: {}, weight: {}}}", words[i], words[i - 1]) : words[i]);
  }
  return fmt::format("[{}]", fmt::join(items, ", "));
}

}  // namespace ravine
