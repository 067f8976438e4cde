// What a line of the Trainer comes to, key by key.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "dialects/dialect.h"

namespace ravine {

// What keys come to, while they are gone through. A key: a flag with its dashes, or one of the config as it was written.
struct TrainerOutcome {
  struct Fate {
    KeyStatus status = KeyStatus::used;
    std::string says;  // option, or reason
    Json value;        // that counts in the end
  };
  struct Choice {
    std::string option;
    Json value;
    std::string from;  // key
  };
  std::map<std::string, Fate> fates;
  std::vector<Choice> choices;  // an option once
  std::vector<KeyRefusal> refusals;
  std::vector<std::string> notices;
  TrainerOutputs outputs;

  void set(const std::string& option, Json value, const std::string& from) {
    std::erase_if(choices, [&](const Choice& c) { return c.option == option; });
    choices.push_back({option, std::move(value), from});
  }
};

}  // namespace ravine
