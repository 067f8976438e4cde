// A DeepSpeed config as written: its keys with their lines, checked by the table (deepspeed_keys.h), "auto" filled in.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/yaml.h"
#include "dialects/deepspeed_keys.h"
#include "dialects/dialect.h"

namespace ravine {

// A key that is set in a DeepSpeed config.
struct DeepSpeedGiven {
  std::string written;           // the user's spelling: "bfloat16.enabled", "zero_optimization.aio.block_size"
  std::string key;               // the key as the table of all keys spells it
  YamlNode::Ptr value;           // its value; for "auto" the value that fill_auto() has set
  std::string source;            // FILE:LINE
  bool automatic = false;        // true: the config has "auto"
  bool left_to_default = false;  // true: "auto" without a rule to fill it: DeepSpeed's default is used
};

struct DeepSpeedConfig {
  std::vector<DeepSpeedGiven> keys;  // in the order of the file

  DeepSpeedGiven* find(std::string_view key);
  const DeepSpeedGiven* find(std::string_view key) const;
  // Returns the value of a key; null if the key is missing, null, or an "auto" that is left to DeepSpeed's default.
  const YamlNode* value(std::string_view key) const;
  bool on(std::string_view key) const;
  double number(std::string_view key, double otherwise) const;
  std::string text(std::string_view key, const std::string& otherwise) const;
  bool has_section(std::string_view section) const;
  int64_t stage() const;  // ZeRO stage; 0 without the section
};

// Reads the keys of a DeepSpeed config from its parsed JSON; `name` is its name in messages. Unknown keys and values
// that the table does not allow are appended to `refusals`. Tolerated mistakes are appended to `notices`, one line
// each. `compared` returns true if a key is compared with a flag. A text under a compared key is kept even if the table
// does not allow it: fill_auto() refuses it and shows both values.
DeepSpeedConfig take_deepspeed_keys(const YamlNode& root, const std::string& name, bool (*compared)(std::string_view key),
                                    std::vector<KeyRefusal>& refusals, std::vector<std::string>& notices);

// Returns the refusal of a key of a DeepSpeed config. where: FILE:LINE. why: the rule, and after its last "; " the fix.
KeyRefusal key_refusal(const std::string& key, const std::string& where, const std::string& why);

std::string written_value(const YamlNode& value);  // the value as Python prints it

}  // namespace ravine
