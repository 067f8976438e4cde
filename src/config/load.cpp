#include "config/load.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/look_alike.h"
#include "base/shell_word.h"
#include "config/chosen.h"
#include "config/count_steps.h"
#include "config/optimizer_types.h"
#include "config/other_names.h"
#include "config/yaml_slips.h"

namespace ravine {
namespace {

std::string location(const YamlNode& node, const std::string& source) {
  return node.line > 0 ? fmt::format("{}:{}", source, node.line) : source;
}

std::string short_name(const std::string& text) { return text.size() > 80 ? text.substr(0, 80) + "..." : text; }

class Loader {
 public:
  explicit Loader(Config& config, const ForeignWords& words = {})
      : config_(config), sections_(sections_of(config)), words_(words) {}

  void document(const YamlNode& root, const std::string& source) {
    if (root.kind == YamlNode::Kind::null) return;
    if (root.kind != YamlNode::Kind::map) {
      const LookAlikeLine slip = root.kind == YamlNode::Kind::text ? find_look_alike_line(root.text) : LookAlikeLine{};
      throw UserError(
          "not a config", location(root, source), slip.number > 0 ? slip.what : "a config is a map of sections",
          slip.number > 0 ? "write with plain characters: " + slip.corrected : "write sections like train: {steps: 1000}");
    }
    for (const auto& [name, value] : root.fields)
      if (name == "model_type" || name == "architectures")
        throw UserError(
            "a model's config.json", location(*value, source), "--config takes options of a run",
            fmt::format("write model.config={} for a new model of this shape, or model.path=FOLDER for its weights", source));
    refuse_names_of_others(root, source);
    for (const auto& [name, value] : root.fields) {
      const Section& section = find_section(name, location(*value, source), value.get());
      if (value->kind == YamlNode::Kind::null) continue;
      if (value->kind != YamlNode::Kind::map) refuse_section(section, *value, location(*value, source));
      for (const auto& [key, item] : value->fields) {
        const Option& option = find_option(section, key, location(*item, source), item.get());
        option.assign(*item, source);
        config_.sources[option.name()] = location(*item, source);
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
  // Throws one error for all keys that have names of other programs. It names the command that takes such a file.
  void refuse_names_of_others(const YamlNode& root, const std::string& source) const {
    std::vector<std::string> found;
    const YamlNode* first = nullptr;
    std::string name;
    std::map<std::string, size_t> lines;  // number of names that each command takes
    for (const auto& [key, value] : root.fields) {
      std::set<std::string> known;
      for (const ForeignWord& w : words_ ? words_(key) : std::vector<ForeignWord>()) known.insert(w.line);
      for (const std::string& line : known) ++lines[line];
      if (std::any_of(sections_.begin(), sections_.end(), [&key = key](const Section& s) { return s.name == key; })) continue;
      const std::string advice = advice_on(key, value.get());
      if (advice.empty()) continue;
      if (!first) first = value.get(), name = key;
      found.push_back(fmt::format("{}: {}", short_name(key), advice));
    }
    constexpr size_t kShown = 24;
    if (found.size() < 2) return;
    const size_t all = found.size();
    found.resize(std::min(all, kShown));
    for (const auto& [line, names] : lines)  // only for keys of a file: flags do not occur in files
      if (line.find(" --") != std::string::npos && names > root.fields.size() / 2)
        found = {
            fmt::format("`{} {}` takes it as it is, and shows these options with --print-config", line, shell_word(source))};
    throw UserError(fmt::format("unknown section '{}'", short_name(name)), location(*first, source),
                    fmt::format("{} names of this file are another program's, options stand in sections here", all),
                    fmt::format("{}", fmt::join(found, "; ")));
  }

  [[noreturn]] static void refuse_section(const Section& section, const YamlNode& value, const std::string& where) {
    std::string rule = "a section is a map of options",
                fix = fmt::format("write {}: {{{}: ..}}", section.name, section.options.front().key);
    auto refuse = [&] { throw UserError(fmt::format("section '{}' holds no keys", section.name), where, rule, fix); };
    if (value.kind == YamlNode::Kind::list) {
      rule = "a section is a map of options, not a list";
      const YamlNode* item = value.items.empty() ? nullptr : value.items.front().get();
      if (item && item->kind == YamlNode::Kind::map && !item->fields.empty())
        fix = fmt::format("leave out the '-' before {}:", item->fields.front().first);
      refuse();
    }
    const auto [key, given] = key_and_value(value.text);
    if (key.empty()) refuse();
    const std::string strange = look_alike(value.text);
    rule = !strange.empty() ? strange : "a colon and a blank stand between a key and its value";
    fix = fmt::format("write {}: {}", key, given);
    refuse();
    fail("config: unreachable");
  }

  // Rewrites advice for a file: "here it is model.path=x" becomes "here it is model.path: write model: {path: x}".
  static std::string in_file(const std::string& advice) {
    static constexpr std::string_view kHere = "here it is ";
    if (!advice.starts_with(kHere)) return advice;
    std::string rest = advice.substr(kHere.size()), value = "VALUE";
    std::string name = rest.substr(0, rest.find_first_of(" =,"));
    const size_t dot = name.find('.');
    if (dot == std::string::npos) return advice;
    if (rest.size() > name.size() && rest[name.size()] == '=') {
      value = rest.substr(name.size() + 1);
      if (!value.starts_with('\'') && resolve_scalar(value).kind == YamlNode::Kind::text) value = yaml_text(value);
      rest = name;
    }
    return fmt::format("here it is {}: write {}: {{{}: {}}}", rest, name.substr(0, dot), name.substr(dot + 1), value);
  }

  // Finds a section. `value` is its value in a file; null if the name is on the command line.
  const Section& find_section(const std::string& name, const std::string& where, const YamlNode* value = nullptr) const {
    std::vector<std::string> names;
    for (const Section& s : sections_) {
      if (s.name == name) return s;
      names.push_back(s.name);
    }
    if (const size_t dot = name.find('.');
        dot != std::string::npos && std::find(names.begin(), names.end(), name.substr(0, dot)) != names.end())
      throw UserError(fmt::format("'{}' as a section", short_name(name)), where,
                      "section.key is the spelling of the command line, a file holds sections",
                      fmt::format("write {}: {{{}: VALUE}}", name.substr(0, dot), short_name(name.substr(dot + 1))));
    if (const std::string strange = look_alike(name); !strange.empty())
      throw UserError(fmt::format("unknown section '{}'", short_name(name)), where, strange,
                      fmt::format("write it with plain characters: {}", with_plain_characters(name)));
    std::string advice = advice_on(name, value);
    if (std::string whole = with_key(name); !whole.empty() && advice.empty())
      throw UserError(fmt::format("unknown section '{}'", name), where, "options stand in sections",
                      value ? fmt::format("did you mean {}: {{{}: ..}}?", whole.substr(0, whole.find('.')), name)
                            : fmt::format("did you mean '{}'?", whole));
    throw UserError(fmt::format("unknown section '{}'", short_name(name)), where,
                    fmt::format("sections are {}", fmt::join(names, ", ")),
                    advice.empty() ? did_you_mean(name, names, "use one of them") : advice);
  }

  const Option& find_option(const Section& section, const std::string& key, const std::string& where,
                            const YamlNode* value = nullptr) const {
    std::vector<std::string> keys, names;
    for (const Option& o : section.options) {
      if (o.key == key) return o;
      keys.push_back(o.key);
      names.push_back(o.name());
    }
    if (const std::string strange = look_alike(key); !strange.empty())
      throw UserError(fmt::format("unknown key '{}.{}'", section.name, short_name(key)), where, strange,
                      fmt::format("write it with plain characters: {}", with_plain_characters(key)));
    if (const auto [word, given] = key_and_value(key);
        value && !word.empty() && std::find(keys.begin(), keys.end(), word) != keys.end())
      throw UserError(fmt::format("unknown key '{}.{}'", section.name, short_name(key)), where,
                      "a colon and a blank stand between a key and its value", fmt::format("write {}: {}", word, given));
    std::string fix = did_you_mean(section.name + "." + key, names, fmt::format("its keys are {}", fmt::join(keys, ", ")));
    std::string elsewhere = with_key(key);
    if (!elsewhere.empty()) fix = fmt::format("did you mean '{}'?", elsewhere);
    if (std::string advice = advice_on(key, value); !advice.empty() && elsewhere.empty()) fix = advice;
    if (std::string advice = advice_on(section.name + "." + key, value); !advice.empty()) fix = advice;
    throw UserError(fmt::format("unknown key '{}.{}'", section.name, short_name(key)), where,
                    fmt::format("section {} has no such key", section.name), fix);
  }

  std::string advice_on(const std::string& word, const YamlNode* value) const {
    const std::string advice = other_name_advice(
        word,
        [this](const std::string& name) {
          return std::any_of(sections_.begin(), sections_.end(), [&](const Section& s) {
            return std::any_of(s.options.begin(), s.options.end(), [&](const Option& o) { return o.name() == name; });
          });
        },
        value && value->scalar() ? value->text : "", {}, words_);
    return value ? in_file(advice) : advice;
  }

  std::string with_key(const std::string& key) const {  // returns the first option with this key in any section
    for (const Section& s : sections_)
      for (const Option& o : s.options)
        if (o.key == key) return o.name();
    return "";
  }

  Config& config_;
  std::vector<Section> sections_;
  const ForeignWords words_;
};

// Runs after all values are set.
void finish(Config& config) {
  leave_aside(config);
  apply_type_defaults(config);
  validate(config);
  count_steps(config);
}

}  // namespace

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
  finish(config);
  return config;
}

Config load_config(const std::string& file, const std::vector<Setting>& settings, const ForeignWords& words) {
  Config config;
  Loader loader(config, words);
  if (!file.empty()) {
    const YamlNode::Ptr root = read_yaml(file);
    if (root->kind == YamlNode::Kind::null)
      throw UserError("a file without options", file, "--config takes sections of options",
                      "write sections like train: {steps: 1000}, or begin with `ravine init DIR`");
    loader.document(*root, file);
  }
  for (const Setting& s : settings) loader.setting(s);
  finish(config);
  return config;
}

}  // namespace ravine
