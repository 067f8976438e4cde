// The table of all keys of a DeepSpeed config, with their types and their effect in Ravine.
// Source: runtime/config.py, runtime/zero/config.py, runtime/zero/offload_config.py, runtime/precision_config.py,
// runtime/swap_tensor/aio_config.py and the sections they name, of DeepSpeed 0.13 and 0.19.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ravine {

// The type of the value of a DeepSpeed key or a Trainer flag.
enum class DeepSpeedValue : uint8_t {
  flag,   // true or false
  whole,  // a whole number, also written 2.0
  size,   // a whole number; a fraction is rounded down (Transformers 4.37 writes 0.9 h h)
  number,
  text,
  numbers,  // a list of numbers
  words,    // for flags: all words up to the next flag
  any,
};

// The effect of a key of a DeepSpeed config, or of a Trainer flag, in Ravine.
// by_value: it leads to options; code decides which, together with other keys and flags.
// renamed: as by_value, and its option gets the key's own value.
// files: the run writes additional files, which `effect` names; no option is set.
// inert: no effect. refused: any value is refused. refused_if_on: refused if the value is true.
enum class DeepSpeedFate : uint8_t { by_value, renamed, files, inert, refused, refused_if_on };
constexpr bool is_used(DeepSpeedFate fate) { return fate <= DeepSpeedFate::files; }

// A row of the table of all keys of a DeepSpeed config.
struct DeepSpeedKey {
  std::string_view key;  // dotted; a last part * matches every key below
  DeepSpeedValue type = DeepSpeedValue::any;
  DeepSpeedFate fate = DeepSpeedFate::inert;
  std::string_view effect;  // for keys with an effect: the options; for others: the reason
  double min = -1e300, max = 1e300;
  std::string_view choices = {};  // allowed texts, separated by blanks; upper and lower case are equal; "": any
};

// A parameter of an optimizer or scheduler class, and its option in Ravine.
struct DeepSpeedParam {
  std::string_view key;
  std::string option;  // "": the parameter has no effect, for `reason`
  std::string_view reason = {};
  bool must_be_default = false;    // any other value than `fallback` is refused, for `reason`
  std::string_view fallback = {};  // the default of the class, as JSON
};

// An optimizer or scheduler class that a DeepSpeed config can name, and its counterpart in Ravine.
struct DeepSpeedClass {
  std::string_view name;    // DeepSpeed's spelling
  std::string_view ours;    // the value of optimizer.type or schedule.type in Ravine
  bool zero_tested = true;  // false: with ZeRO the config must set zero_allow_untested_optimizer
  // DeepSpeed's documentation calls the class tested with ZeRO, its code refuses it. Ravine trains it, with a notice.
  bool zero_promised = false;
  bool one_bit = false;  // data ranks send moments in place of gradients, so ZeRO does not shard
  std::vector<DeepSpeedParam> params;
  // Defaults of the options in the class's section (optimizer or schedule) that differ from Ravine's.
  std::vector<std::pair<std::string_view, std::string_view>> settings = {};
};

std::span<const DeepSpeedKey> deepspeed_keys();
const DeepSpeedKey* find_deepspeed_key(std::string_view key);  // null if the table has no such key
// Returns the fix for a message on an unknown key: "did you mean ..?", or other advice.
std::string nearest_deepspeed_key(const std::string& key);
std::span<const DeepSpeedClass> deepspeed_optimizers();  // upper and lower case of names are equal
std::span<const DeepSpeedClass> deepspeed_schedulers();

bool same_word(std::string_view a, std::string_view b);  // upper and lower case apart

}  // namespace ravine
