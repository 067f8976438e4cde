// The sections of a config (config.h, sections_of); the help of an option ends with the values of its selector.
#include <algorithm>

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

std::string resume_path(const std::string& path) { return path == kResumeNewest || path == kResumeNone ? "./" + path : path; }

std::vector<double> source_weights(const std::vector<DataSource>& sources) {
  std::vector<double> weights;
  if (std::none_of(sources.begin(), sources.end(), [](const DataSource& s) { return s.weight.has_value(); })) return weights;
  for (const DataSource& s : sources) weights.push_back(s.weight.value_or(1));
  return weights;
}

}  // namespace ravine
