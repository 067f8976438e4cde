// What each optimizer.type takes of the section, and which defaults are its own (config/optimizers.def).
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "config/choices.h"

namespace ravine {

struct Config;

struct OptimizerTraits {
  OptimizerType type;
  // Keys beside those that all take: type, lr, weight_decay, decay, clip_norm, groups.
  std::vector<std::string> takes;
  // Where its default is not the one of the option table: key, and the value as YAML.
  std::vector<std::pair<std::string, std::string>> defaults;
  size_t eps = 1;  // numbers of optimizer.eps
  // The decay is added to what is scaled to one, so a step takes away less than lr times decay of a weight.
  bool decay_scaled = false;

  bool is_taken(const std::string& key) const;
  std::string default_of(const std::string& key, const std::string& otherwise) const;
};

const OptimizerTraits& traits_of(OptimizerType type);
const std::vector<OptimizerTraits>& optimizer_traits();

// Gives what nobody gave the defaults of its type. Before validate().
void apply_type_defaults(Config& config);

}  // namespace ravine
