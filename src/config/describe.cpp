// Help texts generated from the option table.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "config/config.h"

namespace ravine {
namespace {

std::vector<Option> fields_of(const Option& option) {
  const auto* records = std::get_if<std::shared_ptr<Records>>(&option.target);
  if (!records) return {};
  (*records)->append();  // the config is a copy, so it may get another element
  return (*records)->fields((*records)->size() - 1);
}

const char* word(OnResume rule) {
  switch (rule) {
    case OnResume::fixed:
      return "fixed";
    case OnResume::may_change:
      return "may change";
    case OnResume::other_bits:
      return "may change, other bits";
    default:
      return "";
  }
}

std::string cell(const std::string& text) {  // a cell of a Markdown table
  std::string out;
  for (char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string defaults_text() {
  Config defaults;
  std::string text;
  for (const Section& s : sections_of(defaults)) {
    text += fmt::format("{}# {}: {}\n{}:\n", text.empty() ? "" : "\n", s.name, s.help, s.name);
    for (const Option& o : s.options) text += fmt::format("  {:<32} # {} ({})\n", o.key + ": " + o.yaml(), o.help, o.type());
  }
  return text;
}

std::string explain(const Config& config, const std::string& key) {
  Config copy = config, defaults;
  auto sections = sections_of(copy), plain = sections_of(defaults);
  std::vector<std::string> names;
  for (size_t i = 0; i < sections.size(); ++i) {
    names.push_back(sections[i].name);
    if (sections[i].name == key) {
      std::string text = fmt::format("{}: {}\n", key, sections[i].help);
      for (const Option& o : sections[i].options) text += fmt::format("  {:<32} {}\n", o.key + ": " + o.yaml(), o.help);
      return text;
    }
    for (size_t j = 0; j < sections[i].options.size(); ++j) {
      const Option& o = sections[i].options[j];
      names.push_back(o.name());
      if (o.name() != key) continue;
      auto from = config.sources.find(key);
      std::string text =
          fmt::format("{}: {}\n{}  type:    {}\n  default: {}\n  value:   {} ({})\n  resume:  {}\n", key, o.help,
                      o.rule.detail.empty() ? "" : "  " + o.rule.detail + "\n", o.type(), plain[i].options[j].yaml(), o.yaml(),
                      from == config.sources.end() ? "default" : from->second, word(o.rule.on_resume));
      for (const Option& f : fields_of(plain[i].options[j]))
        text += fmt::format("  field {}: {} ({}; default {})\n", f.key, f.help, f.type(), f.yaml());
      return text;
    }
  }
  std::string fix = did_you_mean(key, names, "see `ravine config --list`");
  for (size_t i = sections.size(); i-- > 0;)  // a key without its section
    for (const Option& o : sections[i].options)
      if (o.key == key) fix = fmt::format("did you mean '{}'?", o.name());
  throw UserError(fmt::format("unknown key '{}'", key), "command line", "no option has this name", fix);
}

std::string options_markdown() {
  Config defaults;
  std::string text =
      "# Options\n\n"
      "Written by `ravine config --markdown` from the option table (`src/config/config.h`); do not edit.\n"
      "In a YAML file an option stands in its section; on the command line it is `section.key=value`.\n"
      "The column \"resume\" says what a run that goes on from a checkpoint may do: an option that is fixed has to be what it was, else the resume is refused;\n"
      "one that may change is named in the log when it does; with other bits, numbers agree closely from there on, not bit for bit.\n";
  for (const Section& s : sections_of(defaults)) {
    text += fmt::format("\n## {}\n\n{}\n\n| key | type | default | resume | meaning | details |\n|---|---|---|---|---|---|\n",
                        s.name, s.help);
    for (const Option& o : s.options) {
      text += fmt::format("| `{}` | {} | `{}` | {} | {} | {} |\n", o.name(), cell(o.type()), cell(o.yaml()),
                          word(o.rule.on_resume), cell(o.help), cell(o.rule.detail));
      for (const Option& f : fields_of(o))
        text += fmt::format("| `{}[].{}` | {} | `{}` | | {} | {} |\n", o.name(), f.key, cell(f.type()), cell(f.yaml()),
                            cell(f.help), cell(f.rule.detail));
    }
  }
  return text;
}

}  // namespace ravine
