#include "dialects/reverse.h"

#include <algorithm>

#include "base/error.h"
#include "config/yaml.h"
#include "config/yaml_json.h"

namespace ravine {

const std::vector<ForeignWriter>& foreign_writers() {
  static const std::vector<ForeignWriter> writers = {
      {"megatron", megatron_form}, {"deepspeed", deepspeed_form}, {"mindformers", mindformers_form}};
  return writers;
}

std::vector<UnsaidOption> unsaid_options(const Config& wanted, const Config& got, const std::vector<std::string>& but) {
  Config a = wanted, b = got;
  const std::vector<Section> ours = sections_of(a), theirs = sections_of(b);
  std::vector<UnsaidOption> unsaid;
  for (size_t s = 0; s < ours.size(); ++s)
    for (size_t i = 0; i < ours[s].options.size(); ++i) {
      const Option& option = ours[s].options[i];
      if (std::find(but.begin(), but.end(), option.name()) != but.end()) continue;
      const std::string value = option.yaml(), other = theirs[s].options[i].yaml();
      if (value != other) unsaid.push_back({option.name(), value, other});
    }
  return unsaid;
}

Json option_value(const Config& config, const std::string& name) {
  Config copy = config;
  for (const Section& s : sections_of(copy))
    for (const Option& o : s.options)
      if (o.name() == name) return json_of(*load_yaml(o.yaml(), name, false));
  throw Error("no option " + name);
}

}  // namespace ravine
