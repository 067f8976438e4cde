#include "config/yaml_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

namespace ravine {

Json json_of(const YamlNode& value) {
  using Kind = YamlNode::Kind;
  switch (value.kind) {
    case Kind::null:
      return nullptr;
    case Kind::boolean:
      return value.boolean;
    case Kind::integer:
      return value.integer;
    case Kind::real:
      return std::isfinite(value.real) ? Json(value.real) : Json(value.text);
    case Kind::text:
      return value.text;
    case Kind::list: {
      Json list = Json::array();
      for (const YamlNode::Ptr& item : value.items) list.push_back(json_of(*item));
      return list;
    }
    case Kind::map:
      break;
  }
  Json map = Json::object();
  for (const auto& [key, item] : value.fields) map[key] = json_of(*item);
  return map;
}

std::string flow_yaml(const Json& value) {
  if (value.is_string()) return yaml_text(value.get<std::string>());
  if (value.is_number_float()) return yaml_real(value.get<double>());
  if (!value.is_structured()) return value.dump();
  std::vector<std::string> parts;
  for (const auto& [key, item] : value.items())
    parts.push_back(value.is_object() ? fmt::format("{}: {}", yaml_text(key), flow_yaml(item)) : flow_yaml(item));
  return value.is_object() ? fmt::format("{{{}}}", fmt::join(parts, ", ")) : fmt::format("[{}]", fmt::join(parts, ", "));
}

}  // namespace ravine
