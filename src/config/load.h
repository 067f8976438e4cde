// How options come into a Config: from a file, and from the command line.
#pragma once
#include <string>
#include <vector>

#include "config/config.h"
#include "config/other_names.h"

namespace ravine {

// One value given on the command line. `literal`: a text option takes the value as it stands, not as YAML.
struct Setting {
  std::string key, value;
  std::string source = "command line";
  bool literal = false;
};
Setting parse_setting(const std::string& text);  // "section.key=value"

// Default < file (if not "") < settings, the later one wins; then validate(). Every mistake is a UserError that names file and
// line (or the command line), the rule, and for an unknown name the nearest one.
// `words`: what other programs call things, for the mistakes.
Config load_config(const std::string& file, const std::vector<Setting>& settings = {}, const ForeignWords& words = {});
Config parse_config(const std::string& yaml, const std::string& name, const std::vector<Setting>& settings = {});

}  // namespace ravine
