// The options and defaults of each optimizer.type (config/optimizers.def).
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "config/choices.h"

namespace ravine {

struct Config;

// The options and defaults of one optimizer.type: a row of config/optimizers.def.
struct OptimizerTraits {
  OptimizerType type;
  // Keys that the type takes, besides the keys of all types: type, lr, weight_decay, decay, clip_norm, groups.
  std::vector<std::string> takes;
  // Keys whose default differs from the option table, with the value as YAML.
  std::vector<std::pair<std::string, std::string>> defaults;
  size_t eps = 1;  // number of values in optimizer.eps
  // True if the weight decay is added before the update is scaled to one. A step then reduces a weight by
  // less than lr * decay.
  bool decay_scaled = false;

  bool is_taken(const std::string& key) const;
  std::string default_of(const std::string& key, const std::string& otherwise) const;
};

const OptimizerTraits& traits_of(OptimizerType type);
const std::vector<OptimizerTraits>& optimizer_traits();

// Gives the options that the user did not set the defaults of optimizer.type. Called before validate().
void apply_type_defaults(Config& config);

}  // namespace ravine
