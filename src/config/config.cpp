#include "config/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace ravine {
namespace {

std::string place(const YamlNode& node, const std::string& source) {
  return node.line > 0 ? fmt::format("{}:{}", source, node.line) : source;
}

std::string short_name(const std::string& text) { return text.size() > 80 ? text.substr(0, 80) + "..." : text; }

class Loader {
 public:
  explicit Loader(Config& config) : config_(config), sections_(sections_of(config)) {}

  void document(const YamlNode& root, const std::string& source) {
    if (root.kind == YamlNode::Kind::null) return;
    if (root.kind != YamlNode::Kind::map)
      throw UserError("not a config", place(root, source), "a config is a map of sections",
                      "write sections like train: {steps: 1000}");
    for (const auto& [name, value] : root.fields) {
      const Section& section = find_section(name, place(*value, source));
      if (value->kind == YamlNode::Kind::null) continue;
      if (value->kind != YamlNode::Kind::map)
        throw UserError(fmt::format("section '{}' holds no keys", name), place(*value, source), "a section is a map of options",
                        fmt::format("write {}: {{{}: ..}}", name, section.options.front().key));
      for (const auto& [key, item] : value->fields) {
        const Option& option = find_option(section, key, place(*item, source));
        option.assign(*item, source);
        config_.sources[option.name()] = place(*item, source);
      }
    }
  }

  void setting(const Setting& s) {
    size_t dot = s.key.find('.');
    if (dot == std::string::npos) {
      const Section& section = find_section(s.key, s.source);
      throw UserError(fmt::format("'{}' is a section", s.key), s.source, "values are given to section.key",
                      fmt::format("write {}.{}=..", s.key, section.options.front().key));
    }
    const Section& section = find_section(s.key.substr(0, dot), s.source);
    const Option& option = find_option(section, s.key.substr(dot + 1), s.source);
    if (s.literal)
      option.assign_text(s.value, s.source);
    else
      option.assign(*load_yaml(s.value, fmt::format("{}, {}", s.source, option.name()), false), s.source);
    config_.sources[option.name()] = s.source;
  }

 private:
  const Section& find_section(const std::string& name, const std::string& where) const {
    std::vector<std::string> names;
    for (const Section& s : sections_) {
      if (s.name == name) return s;
      names.push_back(s.name);
    }
    if (std::string whole = with_key(name); !whole.empty())
      throw UserError(fmt::format("unknown section '{}'", name), where, "options stand in sections",
                      fmt::format("did you mean '{}'?", whole));
    throw UserError(fmt::format("unknown section '{}'", short_name(name)), where,
                    fmt::format("sections are {}", fmt::join(names, ", ")), did_you_mean(name, names, "use one of them"));
  }

  const Option& find_option(const Section& section, const std::string& key, const std::string& where) const {
    std::vector<std::string> keys, names;
    for (const Option& o : section.options) {
      if (o.key == key) return o;
      keys.push_back(o.key);
      names.push_back(o.name());
    }
    std::string fix = did_you_mean(section.name + "." + key, names, fmt::format("its keys are {}", fmt::join(keys, ", ")));
    std::string elsewhere = with_key(key);
    if (!elsewhere.empty()) fix = fmt::format("did you mean '{}'?", elsewhere);
    throw UserError(fmt::format("unknown key '{}.{}'", section.name, short_name(key)), where,
                    fmt::format("section {} has no such key", section.name), fix);
  }

  std::string with_key(const std::string& key) const {  // the first option of any section with this key
    for (const Section& s : sections_)
      for (const Option& o : s.options)
        if (o.key == key) return o.name();
    return "";
  }

  Config& config_;
  std::vector<Section> sections_;
};

[[noreturn]] void conflict(const Config& config, const std::string& what, const std::string& key, const std::string& rule,
                           const std::string& fix) {
  auto found = config.sources.find(key);
  throw UserError(what, found == config.sources.end() ? "default" : found->second, rule, fix);
}

}  // namespace

std::vector<Section> sections_of(Config& config) {
  std::vector<Section> sections;
  config.each_section([&](const char* name, auto& options, const char* help) {
    sections.push_back({name, help, options_of(options, name)});
  });
  return sections;
}

Setting parse_setting(const std::string& text) {
  size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw UserError(fmt::format("'{}'", short_name(text)), "command line", "options are written section.key=value",
                    "write for example train.steps=100");
  return {text.substr(0, equals), text.substr(equals + 1)};
}

Config parse_config(const std::string& yaml, const std::string& name, const std::vector<Setting>& settings) {
  Config config;
  Loader loader(config);
  loader.document(*load_yaml(yaml, name), name);
  for (const Setting& s : settings) loader.setting(s);
  validate(config);
  return config;
}

Config load_config(const std::string& file, const std::vector<Setting>& settings) {
  Config config;
  Loader loader(config);
  if (!file.empty()) loader.document(*read_yaml(file), file);
  for (const Setting& s : settings) loader.setting(s);
  validate(config);
  return config;
}

void validate(const Config& c) {
  if (!c.model.path.empty() && !c.model.config.empty())
    conflict(c, "model.path and model.config are both given", "model.config", "a model comes from one of them", "remove one");
  if (c.train.global_batch % c.train.micro_batch != 0)
    conflict(c, fmt::format("train.global_batch is {}", c.train.global_batch),
             c.sources.contains("train.global_batch") ? "train.global_batch" : "train.micro_batch",
             fmt::format("must be a multiple of train.micro_batch, {}", c.train.micro_batch),
             fmt::format("use {} or another multiple", (c.train.global_batch / c.train.micro_batch + 1) * c.train.micro_batch));
  if (c.data.valid_fraction > 0 && !c.data.valid.empty())
    conflict(c, "data.valid and data.valid_fraction are both given", "data.valid_fraction",
             "validation data come from one of them", "remove one");
  if (c.parallel.split == "cost" && !c.parallel.stage_layers.empty())
    conflict(c, "parallel.split and parallel.stage_layers are both given", "parallel.stage_layers", "layers are shared by one of them", "remove one");
  if (c.optimizer.nesterov && (c.optimizer.momentum == 0 || c.optimizer.dampening != 0))
    conflict(c, "optimizer.nesterov is true", "optimizer.nesterov", "needs a momentum above 0 and a dampening of 0",
             "set optimizer.momentum=0.9 optimizer.dampening=0, or remove nesterov");
}

std::string to_yaml(const Config& config) {
  Config copy = config;
  std::string text;
  for (const Section& s : sections_of(copy)) {
    text += s.name + ":\n";
    for (const Option& o : s.options) text += fmt::format("  {}: {}\n", o.key, o.yaml());
  }
  return text;
}

}  // namespace ravine
