// Every key of a DeepSpeed config (runtime/config.py, runtime/zero/config.py, runtime/zero/offload_config.py,
// runtime/precision_config.py, runtime/swap_tensor/aio_config.py and the sections they name, of 0.13 and 0.19), with what it may
// hold and what becomes of it here.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ravine {

enum class DeepSpeedValue : uint8_t {
  flag,   // true or false
  whole,  // a whole number, also written 2.0
  size,   // the same; of a fraction, as Transformers 4.37 writes 0.9 h h, the whole part
  number,
  text,
  numbers,  // a list of them
  words,    // of flags: all words up to the next one
  any,
};

// What becomes of a key. Of the first two deepspeed.cpp decides, with other keys and the flags in view; the option of a `renamed`
// one gets the key's own value.
// `files`: the run writes files of their own, which `says` names; no option is set.
enum class DeepSpeedFate : uint8_t { by_value, renamed, files, inert, refused, refused_if_on };
constexpr bool is_used(DeepSpeedFate fate) { return fate <= DeepSpeedFate::files; }

struct DeepSpeedKey {
  std::string_view key;  // dotted; a last part of * stands for every key below
  DeepSpeedValue type = DeepSpeedValue::any;
  DeepSpeedFate fate = DeepSpeedFate::inert;
  std::string_view says;  // of what is used: options that it leads to; else the reason
  double min = -1e300, max = 1e300;
  std::string_view choices = {};  // of a text, between blanks; letters of either case
};

// What a key leads to that is a parameter of a class: its name here.
struct DeepSpeedParam {
  std::string_view key;
  std::string option;  // "": inert for the reason
  std::string_view reason = {};
  bool must_be_default = false;    // another value than the default is refused, for the reason
  std::string_view fallback = {};  // as JSON
};

struct DeepSpeedClass {
  std::string_view name;    // as DeepSpeed spells it
  std::string_view ours;    // optimizer.type or schedule.type
  bool zero_tested = true;  // with ZeRO; else zero_allow_untested_optimizer is asked for
  bool zero_promised =
      false;             // the documentation calls it tested with ZeRO, and the code refuses it: it is trained, with a notice
  bool one_bit = false;  // never divided: data ranks send moments
  std::vector<DeepSpeedParam> params;
  std::vector<std::pair<std::string_view, std::string_view>> settings = {};  // of the section, defaults that differ from ours
};

std::span<const DeepSpeedKey> deepspeed_keys();
const DeepSpeedKey* find_deepspeed_key(std::string_view key);  // null: no such key
std::string nearest_deepspeed_key(const std::string& key);     // "did you mean ..?" or what to do
std::span<const DeepSpeedClass> deepspeed_optimizers();        // names of either case
std::span<const DeepSpeedClass> deepspeed_schedulers();

bool same_word(std::string_view a, std::string_view b);  // upper and lower case apart

}  // namespace ravine
