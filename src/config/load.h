// Loads a Config from a file and from the command line.
#pragma once
#include <string>
#include <vector>

#include "config/config.h"
#include "config/other_names.h"

namespace ravine {

// A value given on the command line. `literal`: a text option takes the value unchanged, not parsed as YAML.
struct Setting {
  std::string key, value;
  std::string source = "command line";
  bool literal = false;
};
Setting parse_setting(const std::string& text);  // parses "section.key=value"

// Loads a config from defaults, `file` (if not "") and `settings`; later values win. Then validate() is called.
// UserErrors name file and line (or the command line), the rule, and the nearest name if a name is unknown. `words` has
// the names that other programs use, for the advice in errors.
Config load_config(const std::string& file, const std::vector<Setting>& settings = {}, const ForeignWords& words = {});
// Loads a config like load_config, from the YAML text `yaml` instead of a file; `name` is its name in errors.
Config parse_config(const std::string& yaml, const std::string& name, const std::vector<Setting>& settings = {});

}  // namespace ravine
