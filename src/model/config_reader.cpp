#include "model/config_reader.h"

#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace ravine {

void ConfigReader::refuse(const std::string& key, const std::string& rule, const std::string& fix) const {
  throw UserError(
      "config field '" + key + "'" + (config_.contains(key) ? " is " + config_.at(key).dump().substr(0, 60) : " is missing"),
      where_, rule, fix);
}

int64_t ConfigReader::integer(const std::string& key, int64_t low, int64_t high) {
  if (!has(key)) refuse(key, "it is required", "use a complete config.json");
  return integer(key, low, high, low);
}

int64_t ConfigReader::integer(const std::string& key, int64_t low, int64_t high, int64_t fallback) {
  seen_.insert(key);
  if (!has(key)) return fallback;
  const Json& v = config_.at(key);
  bool whole = v.is_number_integer() || (v.is_number_float() && std::floor(v.get<double>()) == v.get<double>());
  double value = v.is_number() ? v.get<double>() : 0;
  if (!whole || !(value >= static_cast<double>(low) && value <= static_cast<double>(high)))
    refuse(key, fmt::format("it must be a whole number from {} to {}", low, high), "correct the field");
  return static_cast<int64_t>(value);
}

int64_t ConfigReader::any_integer(const std::vector<std::string>& keys, int64_t low, int64_t high) {
  for (const std::string& key : keys)
    if (has(key)) return any_integer(keys, low, high, low);
  refuse(keys[0], "it is required", "use a complete config.json");
}

int64_t ConfigReader::any_integer(const std::vector<std::string>& keys, int64_t low, int64_t high, int64_t fallback) {
  std::string first;
  int64_t value = fallback;
  for (const std::string& key : keys) {
    seen_.insert(key);
    if (!has(key)) continue;
    int64_t v = integer(key, low, high, fallback);
    if (!first.empty() && v != value)
      refuse(key, fmt::format("it must equal '{}', which is {}", first, value), "correct the field");
    first = key;
    value = v;
  }
  return value;
}

double ConfigReader::number(const std::string& key, double low, double high, double fallback) {
  seen_.insert(key);
  if (!has(key)) return fallback;
  const Json& v = config_.at(key);
  if (!v.is_number() || !(v.get<double>() >= low && v.get<double>() <= high))
    refuse(key, fmt::format("it must be a number from {} to {}", low, high), "correct the field");
  return v.get<double>();
}

bool ConfigReader::boolean(const std::string& key, bool fallback) {
  seen_.insert(key);
  if (!has(key)) return fallback;
  if (!config_.at(key).is_boolean()) refuse(key, "it must be true or false", "correct the field");
  return config_.at(key).get<bool>();
}

std::string ConfigReader::text(const std::string& key, const std::string& fallback) {
  seen_.insert(key);
  if (!has(key)) return fallback;
  if (!config_.at(key).is_string()) refuse(key, "it must be a string", "correct the field");
  return config_.at(key).get<std::string>();
}

std::vector<int64_t> ConfigReader::ids(const std::string& key) {
  seen_.insert(key);
  if (!has(key)) return {};
  const Json& v = config_.at(key);
  std::vector<int64_t> out;
  for (const Json& x : v.is_array() ? v : Json::array({v})) {
    if (!x.is_number_integer()) refuse(key, "it must be a token id or a list of token ids", "correct the field");
    out.push_back(x.get<int64_t>());
  }
  return out;
}

std::vector<double> ConfigReader::numbers(const std::string& key, double low, double high) {
  seen_.insert(key);
  std::vector<double> out;
  if (!has(key)) return out;
  for (const Json& x : config_.at(key).is_array() ? config_.at(key) : Json::array({nullptr})) {
    if (!x.is_number() || !(x.get<double>() >= low && x.get<double>() <= high))
      refuse(key, fmt::format("it must be a list of numbers from {} to {}", low, high), "correct the field");
    out.push_back(x.get<double>());
  }
  return out;
}

std::vector<std::string> ConfigReader::texts(const std::string& key) {
  seen_.insert(key);
  std::vector<std::string> out;
  if (!has(key)) return out;
  if (!config_.at(key).is_array()) refuse(key, "it must be a list of strings", "correct the field");
  for (const Json& x : config_.at(key)) {
    if (!x.is_string()) refuse(key, "it must be a list of strings", "correct the field");
    out.push_back(x.get<std::string>());
  }
  return out;
}

const Json* ConfigReader::object(const std::string& key) {
  seen_.insert(key);
  if (!has(key)) return nullptr;
  if (!config_.at(key).is_object()) refuse(key, "it must be an object", "correct the field");
  return &config_.at(key);
}

void ConfigReader::only(const std::string& key, const Json& value, const std::string& why) {
  seen_.insert(key);
  if (has(key) && config_.at(key) != value)
    refuse(key, "only " + value.dump() + " is supported: " + why, "use a model without it");
}

void ConfigReader::ignore(const std::vector<std::string>& keys) { seen_.insert(keys.begin(), keys.end()); }

void ConfigReader::finish() {
  for (const auto& [key, value] : config_.items()) {
    if (seen_.count(key)) continue;
    std::string near = nearest(key, {seen_.begin(), seen_.end()});
    refuse(key, "no such field is known for this model_type, and an ignored field could change the numbers",
           near.empty() ? "remove it if it says nothing about the arithmetic" : "did you mean '" + near + "'?");
  }
}

}  // namespace ravine
