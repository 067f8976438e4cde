// Reads the fields of a config.json. A field that the family has not read is refused by name at the end, so no field is
// silently ignored.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "base/json.h"

namespace ravine {

class ConfigReader {
 public:
  ConfigReader(const Json& config, std::string where) : config_(config), where_(std::move(where)) {}

  bool has(const std::string& key) const { return config_.contains(key) && !config_.at(key).is_null(); }
  // True if the field `key` of config.json is null, which means that it is switched off. An absent field means a
  // default instead.
  bool is_null(const std::string& key) const { return config_.contains(key) && config_.at(key).is_null(); }
  // Returns the whole number in the field `key`, which must be in [low, high]. The overload without a fallback requires
  // the field. A UserError for any other value, as in all readers below.
  int64_t integer(const std::string& key, int64_t low, int64_t high);
  int64_t integer(const std::string& key, int64_t low, int64_t high, int64_t fallback);
  // Returns the whole number in the field with any of these names (synonyms). Two names with different values are a
  // UserError.
  int64_t any_integer(const std::vector<std::string>& keys, int64_t low, int64_t high);
  int64_t any_integer(const std::vector<std::string>& keys, int64_t low, int64_t high, int64_t fallback);
  double number(const std::string& key, double low, double high, double fallback);
  bool boolean(const std::string& key, bool fallback);
  std::string text(const std::string& key, const std::string& fallback);
  std::vector<int64_t> ids(const std::string& key);  // one id or a list of ids; empty if absent or null
  // Returns the list of numbers in the field, each in [low, high]; empty if the field is absent or null.
  std::vector<double> numbers(const std::string& key, double low, double high);
  // Returns the list of strings in the field; empty if the field is absent or null.
  std::vector<std::string> texts(const std::string& key);
  const Json* object(const std::string& key);  // null if absent or null

  // Checks that the field, if it is present, has this value; any other value is a UserError with the reason `why`.
  void only(const std::string& key, const Json& value, const std::string& why);
  // Accepts fields that do not affect the arithmetic, without reading their values.
  void ignore(const std::vector<std::string>& keys);
  // Checks that all fields of the config were read. The first field that was not read is a UserError with the nearest
  // known name.
  void finish();
  [[noreturn]] void refuse(const std::string& key, const std::string& rule, const std::string& fix) const;
  const std::string& where() const { return where_; }
  const Json& config() const { return config_; }

 private:
  const Json& config_;
  std::string where_;
  std::set<std::string> seen_;
};

}  // namespace ravine
