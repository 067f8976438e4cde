// The options of a config, each with the values of its selector behind its help (config.h, sections_of).
#include "config/config.h"
#include "config/takes.h"

namespace ravine {

std::vector<Section> sections_of(Config& config) {
  std::vector<Section> sections;
  config.each_section([&](const char* name, auto& options, const char* help) {
    sections.push_back({name, help, options_of(options, name)});
    for (Option& o : sections.back().options) o.help += taken_text(o.name());
  });
  return sections;
}

}  // namespace ravine
