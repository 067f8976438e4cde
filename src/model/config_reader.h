// Reads the fields of a config.json. Whatever no family asked for is refused by name at the end, so nothing is silently
// ignored.
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
  // Switched off, where absent means a default.
  bool is_null(const std::string& key) const { return config_.contains(key) && config_.at(key).is_null(); }
  // Required integer or number in [low, high].
  int64_t integer(const std::string& key, int64_t low, int64_t high);
  int64_t integer(const std::string& key, int64_t low, int64_t high, int64_t fallback);
  // One value under any of these names (synonyms); several that differ are refused.
  int64_t any_integer(const std::vector<std::string>& keys, int64_t low, int64_t high);
  int64_t any_integer(const std::vector<std::string>& keys, int64_t low, int64_t high, int64_t fallback);
  double number(const std::string& key, double low, double high, double fallback);
  bool boolean(const std::string& key, bool fallback);
  std::string text(const std::string& key, const std::string& fallback);
  std::vector<int64_t> ids(const std::string& key);  // one id or a list of ids; empty if absent or null
  std::vector<double> numbers(const std::string& key, double low, double high);  // a list of numbers; empty if absent or null
  std::vector<std::string> texts(const std::string& key);                        // a list of strings; empty if absent or null
  const Json* object(const std::string& key);                                    // null if absent or null

  // The field may hold this value only.
  void only(const std::string& key, const Json& value, const std::string& why);
  // Fields that say nothing about the arithmetic.
  void ignore(const std::vector<std::string>& keys);
  // Throws UserError for the first field nobody asked for, with the nearest known name.
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
