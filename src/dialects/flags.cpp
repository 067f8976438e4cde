// Parses command lines like Python's argparse.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "config/yaml.h"
#include "config/yaml_json.h"
#include "dialects/dialect.h"

namespace ravine {
namespace {

bool begins_flag(const std::string& word) { return word.size() > 2 && word.starts_with("--"); }

Json value_of(KeyType type, const std::string& word) {
  if (type == KeyType::text || type == KeyType::texts) return word;
  const YamlNode node = resolve_scalar(word);
  const Json value = json_of(node);
  if (type == KeyType::boolean || type == KeyType::any) return value;
  return value.is_number() ? value : Json(word);
}

}  // namespace

std::vector<PlacedWord> placed(const std::vector<std::string>& words) {
  std::vector<PlacedWord> out;
  for (const std::string& w : words) out.push_back({w, "command line"});
  return out;
}

std::vector<GivenKey> read_flags(const DialectTable& table, const std::vector<PlacedWord>& words, const std::string& program) {
  std::vector<GivenKey> out;
  size_t at = 0;
  const auto behind = [&] {  // returns the values up to the next flag
    std::vector<std::string> values;
    while (at < words.size() && !begins_flag(words[at].text)) values.push_back(words[at++].text);
    return values;
  };
  while (at < words.size()) {
    const PlacedWord& word = words[at++];
    if (!begins_flag(word.text))
      throw UserError(fmt::format("'{}' belongs to no flag", word.text.substr(0, 80)), word.source,
                      fmt::format("{} takes flags and their values", program), "write the flag before it, or leave it out");
    const size_t equals = word.text.find('=');
    const std::string key = word.text.substr(0, equals);
    const auto row = std::find_if(table.begin(), table.end(), [&](const DialectKey& r) { return r.key == key; });
    const bool known = row != table.end();
    const KeyType type = known ? row->type : KeyType::any;
    const bool list = type == KeyType::wholes || type == KeyType::numbers || type == KeyType::texts;
    if (equals != std::string::npos) {
      Json value = value_of(type, word.text.substr(equals + 1));
      out.push_back({key, list ? Json::array({std::move(value)}) : std::move(value), word.source});
    } else if (!known || list) {
      Json values = Json::array();
      for (const std::string& v : behind()) values.push_back(value_of(type, v));
      if (known && values.empty())
        throw UserError(key + " has no value", word.source, "it needs one or more", fmt::format("write {} A B", key));
      out.push_back({key, std::move(values), word.source});
    } else if (type == KeyType::on) {
      out.push_back({key, true, word.source});
    } else {
      if (at == words.size() || begins_flag(words[at].text))
        throw UserError(key + " has no value", word.source, "it needs one", fmt::format("write {} VALUE", key));
      out.push_back({key, value_of(type, words[at++].text), word.source});
    }
  }
  return out;
}

}  // namespace ravine
