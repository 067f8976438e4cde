// The result of translating a line of the Trainer, key by key.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "dialects/dialect.h"

namespace ravine {

// The result of the keys so far. A key is a flag with its dashes, or a key of the config in the user's spelling.
struct TrainerOutcome {
  // The effect of a key.
  struct Fate {
    KeyStatus status = KeyStatus::used;
    std::string effect;  // the option, or the reason
    Json value;          // the value that is used
  };
  // The value of an option, and the key from which it comes.
  struct Choice {
    std::string option;
    Json value;
    std::string from;  // key
  };
  std::map<std::string, Fate> fates;
  std::vector<Choice> choices;  // each option once
  std::vector<KeyRefusal> refusals;
  std::vector<std::string> notices;
  TrainerOutputs outputs;

  void set(const std::string& option, Json value, const std::string& from) {
    std::erase_if(choices, [&](const Choice& c) { return c.option == option; });
    choices.push_back({option, std::move(value), from});
  }
};

}  // namespace ravine
