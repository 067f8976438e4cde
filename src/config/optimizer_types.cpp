#include "config/optimizer_types.h"

#include <algorithm>

#include "base/error.h"
#include "config/config.h"

namespace ravine {

bool OptimizerTraits::is_taken(const std::string& key) const {
  static const std::vector<std::string> by_all = {"type", "lr", "weight_decay", "decay", "clip_norm", "groups"};
  return std::find(by_all.begin(), by_all.end(), key) != by_all.end() ||
         std::find(takes.begin(), takes.end(), key) != takes.end();
}

std::string OptimizerTraits::default_of(const std::string& key, const std::string& otherwise) const {
  for (const auto& [own, value] : defaults)
    if (own == key) return value;
  return otherwise;
}

namespace {

// A word of the table that is no option would make one that nobody can give, or a default that nobody gets.
const std::vector<OptimizerTraits>& checked(const std::vector<OptimizerTraits>& types) {
  OptimizerOptions options;
  const std::vector<Option> all = options_of(options, "optimizer");
  auto check = [&](OptimizerType type, const std::string& key) {
    require(std::any_of(all.begin(), all.end(), [&](const Option& o) { return o.key == key; }),
            "optimizer.type={} takes '{}', which is no option", name(type), key);
  };
  for (const OptimizerTraits& t : types) {
    for (const std::string& key : t.takes) check(t.type, key);
    for (const auto& [key, value] : t.defaults) check(t.type, key);
  }
  return types;
}

}  // namespace

// Defaults: torch.optim (adagrad, muon), Transformers (adafactor), DeepSpeed (lamb, lion and those of one bit), MindFormers
// (came), ModelLink's command line (cadam).
const std::vector<OptimizerTraits>& optimizer_traits() {
  using enum OptimizerType;
  static const std::vector<OptimizerTraits> types = {
      {.type = adamw, .takes = {"betas", "eps"}, .defaults = {}},
      {.type = adam, .takes = {"betas", "eps"}, .defaults = {}, .decay_scaled = true},
      {.type = sgd, .takes = {"momentum", "nesterov", "dampening"}, .defaults = {}},
      {.type = adagrad,
       .takes = {"eps", "lr_decay", "initial_accumulator_value"},
       .defaults = {{"eps", "1e-10"}, {"weight_decay", "0"}},
       .decay_scaled = true},
      {.type = adafactor,
       .takes = {"eps", "clip_threshold", "decay_rate", "beta1", "scale_parameter", "relative_step", "warmup_init"},
       .defaults = {{"eps", "[1e-30, 1e-3]"}, {"beta1", "0"}, {"weight_decay", "0"}},
       .eps = 2},
      {.type = lamb,
       .takes = {"betas", "eps", "bias_correction", "max_coeff", "min_coeff"},
       .defaults = {{"betas", "[0.9, 0.999]"}, {"weight_decay", "0"}},
       .decay_scaled = true},
      {.type = lion, .takes = {"betas"}, .defaults = {{"betas", "[0.9, 0.999]"}, {"weight_decay", "0"}}},
      {.type = muon,
       .takes = {"momentum", "nesterov", "eps", "ns_coefficients", "ns_steps", "adjust_lr_fn", "betas"},
       .defaults = {{"momentum", "0.95"}, {"nesterov", "true"}, {"eps", "1e-7"}}},
      {.type = came,
       .takes = {"eps", "clip_threshold", "decay_rate", "beta1", "beta3", "scale_parameter"},
       .defaults =
           {{"eps", "[1e-30, 1e-3, 1e-16]"}, {"decay_rate", "0.8"}, {"scale_parameter", "false"}, {"weight_decay", "0"}},
       .eps = 3},
      {.type = cadam, .takes = {"beta1"}, .defaults = {{"weight_decay", "0.01"}}},
      {.type = onebit_adam,
       .takes = {"betas", "eps", "freeze_step"},
       .defaults = {{"betas", "[0.9, 0.999]"}, {"weight_decay", "0"}}},
      {.type = zeroone_adam,
       .takes = {"betas", "eps", "var_freeze_step", "var_update_scaler", "local_step_scaler", "local_step_clipper"},
       .defaults = {{"betas", "[0.9, 0.999]"}, {"weight_decay", "0"}}},
      {.type = onebit_lamb,
       .takes = {"betas", "eps", "freeze_step", "max_coeff", "min_coeff", "coeff_beta", "factor_max", "factor_min",
                 "factor_threshold"},
       .defaults = {{"betas", "[0.9, 0.999]"}, {"weight_decay", "0"}},
       .decay_scaled = true},
  };
  static const std::vector<OptimizerTraits>& once = checked(types);
  return once;
}

const OptimizerTraits& traits_of(OptimizerType type) {
  for (const OptimizerTraits& t : optimizer_traits())
    if (t.type == type) return t;
  fail("no traits of optimizer {}", name(type));
}

void apply_type_defaults(Config& config) {
  const OptimizerTraits& type = traits_of(config.optimizer.type);
  for (const Option& option : options_of(config.optimizer, "optimizer"))
    for (const auto& [key, value] : type.defaults)
      if (key == option.key && !config.sources.contains(option.name()))
        option.assign_text(value, fmt::format("default of {}", name(config.optimizer.type)));
}

}  // namespace ravine
