// A DeepSpeed config as it was written: its keys with lines, each checked by the table (deepspeed_keys.h), and filled where it
// says "auto".
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/yaml.h"
#include "dialects/deepspeed_keys.h"
#include "dialects/dialect.h"

namespace ravine {

struct DeepSpeedGiven {
  std::string written;           // as the user spelled it: "bfloat16.enabled", "zero_optimization.aio.block_size"
  std::string key;               // as the table has it
  YamlNode::Ptr value;           // filled, where it said auto
  std::string source;            // FILE:LINE
  bool automatic = false;        // it said "auto"
  bool left_to_default = false;  // nothing fills it: the default counts
};

struct DeepSpeedConfig {
  std::vector<DeepSpeedGiven> keys;  // in the order of the file

  DeepSpeedGiven* find(std::string_view key);
  const DeepSpeedGiven* find(std::string_view key) const;
  // The value; null where the key is missing, null or left to its default.
  const YamlNode* value(std::string_view key) const;
  bool on(std::string_view key) const;
  double number(std::string_view key, double otherwise) const;
  std::string text(std::string_view key, const std::string& otherwise) const;
  bool has_section(std::string_view section) const;
  int64_t stage() const;  // of ZeRO; 0 without the section
};

// Takes the keys out of a document. Unknown keys and values that the table does not allow go to `refusals`; what is forgiven to
// `notices`, a line each. A text under a key that is `compared` with a flag is kept, whatever the table says: who compares says
// both values.
DeepSpeedConfig take_deepspeed_keys(const YamlNode& root, const std::string& name, bool (*compared)(std::string_view key),
                                    std::vector<KeyRefusal>& refusals, std::vector<std::string>& notices);

// `why`: the rule, and behind the last "; " what to do about it.
KeyRefusal key_refusal(const std::string& key, const std::string& where, const std::string& why);

std::string written_value(const YamlNode& value);  // as Python prints it

}  // namespace ravine
