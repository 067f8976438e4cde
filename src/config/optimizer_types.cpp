#include "config/optimizer_types.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
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

// Throws an Error if the table names an option that does not exist.
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

// Parses "key: value; key: value".
std::vector<std::pair<std::string, std::string>> defaults_of(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> out;
  for (size_t at = 0; at < text.size();) {
    const size_t colon = text.find(": ", at), end = std::min(text.find("; ", at), text.size());
    require(colon < end, "config/optimizers.def: '{}' is no \"key: value; key: value\"", text);
    out.emplace_back(text.substr(at, colon - at), text.substr(colon + 2, end - colon - 2));
    at = end + 2;
  }
  return out;
}

}  // namespace

const std::vector<OptimizerTraits>& optimizer_traits() {
  static const std::vector<OptimizerTraits> types = {
#define OPTIMIZER(name, takes, defaults, eps, decay_scaled) \
  {OptimizerType::name, split(takes, ' '), defaults_of(defaults), eps, decay_scaled},
#include "config/optimizers.def"
#undef OPTIMIZER
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
