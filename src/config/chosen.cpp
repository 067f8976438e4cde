#include "config/chosen.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "config/optimizer_types.h"
#include "config/takes.h"

namespace ravine {
namespace {

constexpr int kListing = 50;  // a file that sets so many options is a listing, like a run's config.yaml

constexpr std::string_view kLeftAside = ", left aside";

// True for a source such as "run.yaml:4".
bool is_file_location(const std::string& source) {
  const size_t colon = source.rfind(':');
  return colon != std::string::npos && source.find_first_not_of("0123456789", colon + 1) == std::string::npos;
}

std::string file_of(const std::string& source) {
  return is_file_location(source) ? source.substr(0, source.rfind(':')) : source;
}

}  // namespace

void leave_aside(Config& config) {
  Config table;
  auto sweep = [&](auto& section, auto& plain, const char* of, auto&& takes) {
    const auto type = config.sources.find(std::string(of) + ".type");
    if (type == config.sources.end()) return;
    const std::vector<Option> options = options_of(section, of), defaults = options_of(plain, of);
    for (size_t i = 0; i < options.size(); ++i) {
      const auto source = config.sources.find(options[i].name());
      if (source == config.sources.end() || !is_file_location(source->second) ||
          file_of(source->second) == file_of(type->second) || takes(options[i].key))
        continue;
      if (options[i].yaml() != defaults[i].yaml()) config.sources[options[i].name() + std::string(kLeftAside)] = source->second;
      options[i].assign(*load_yaml(defaults[i].yaml(), "default", false), "default");
      config.sources.erase(options[i].name());
    }
  };
  sweep(config.optimizer, table.optimizer, "optimizer",
        [&](const std::string& key) { return traits_of(config.optimizer.type).is_taken(key); });
  sweep(config.schedule, table.schedule, "schedule", [&](const std::string& key) { return accepts_key(config.schedule, key); });
}

std::vector<std::string> left_aside(const Config& config) {
  std::vector<std::string> lines;
  for (const auto& [key, location] : config.sources)
    if (key.ends_with(kLeftAside)) {
      const std::string option = key.substr(0, key.size() - kLeftAside.size());
      const bool schedule = option.starts_with("schedule.");
      lines.push_back(fmt::format("{} of {} has no effect with {}.type={}", option, location,
                                  schedule ? "schedule" : "optimizer",
                                  schedule ? name(config.schedule.type) : name(config.optimizer.type)));
    }
  return lines;
}

std::set<std::string> chosen_options(const Config& config) {
  std::map<std::string, int> given;  // number of options per file
  for (const auto& [option, source] : config.sources) ++given[file_of(source)];
  Config copy = config, table;
  const std::vector<Section> sections = sections_of(copy), plain = sections_of(table);
  std::set<std::string> set_by_user;
  for (size_t s = 0; s < sections.size(); ++s)
    for (size_t i = 0; i < sections[s].options.size(); ++i) {
      const Option& option = sections[s].options[i];
      const auto source = config.sources.find(option.name());
      if (source == config.sources.end()) continue;
      if (given[file_of(source->second)] < kListing || option.yaml() != plain[s].options[i].yaml())
        set_by_user.insert(option.name());
    }
  return set_by_user;
}

std::vector<std::string> unused_options(const Config& config, bool harmless) {
  const std::set<std::string> set_by_user = chosen_options(config);
  Config copy = config;
  std::map<std::string, std::string> chosen;  // values of options that have choices
  std::vector<std::string> names, out;
  for (const Section& section : sections_of(copy))
    for (const Option& o : section.options) {
      if (o.is_choice()) chosen[o.name()] = o.text();
      if (set_by_user.contains(o.name())) names.push_back(o.name());
    }
  for (const std::string& option : names) {
    const Taken* t = taken_by(option);
    if (!t || t->harmless != harmless) continue;
    if (std::find(t->values.begin(), t->values.end(), chosen.at(t->selector)) != t->values.end()) continue;
    if (t->selector == "schedule.type" && accepts_key(config.schedule, option.substr(option.find('.') + 1))) continue;
    out.push_back(option);
  }
  return out;
}

}  // namespace ravine
