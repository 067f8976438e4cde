#include "config/command_help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "config/flag_word.h"
#include "config/takes.h"

namespace ravine {
namespace {

constexpr size_t kColumn = 30;      // width of the left column
constexpr size_t kLongHelp = 110;   // help text with its choices; longer lists are shown by --explain only
constexpr size_t kParagraph = 100;  // columns of a paragraph

std::string two_columns(const std::string& left, const std::string& right) {
  return left.size() <= kColumn ? fmt::format("  {:<{}} {}\n", left, kColumn, right)
                                : fmt::format("  {}\n  {:<{}} {}\n", left, "", kColumn, right);
}

std::string paragraph(const std::string& text) {
  std::string out;
  size_t width = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    if (width > 0 && width + 1 + (end - at) > kParagraph) {
      out += '\n';
      width = 0;
    } else if (width > 0) {
      out += ' ';
      ++width;
    }
    out += text.substr(at, end - at);
    width += end - at;
    at = end + 1;
  }
  return out.empty() ? "" : out + "\n";
}

std::string head(const CommandSpec& spec, const std::vector<Option>& flags) {
  std::string usage = "ravine " + spec.name;
  for (const Option& f : flags)
    if (f.rule.positional) usage += f.rule.required ? " " + flag_word(f) : " [" + flag_word(f) + "]";
  if (!spec.sections.empty()) usage += " [--config run.yaml] [section.key=value ..]";
  return fmt::format("Example:\n  {}\n\n{}: {}\n{}\nUsage: {} [flags]\n", spec.example, spec.name, spec.summary,
                     paragraph(spec.about), usage);
}

std::string flag_line(const Option& f, bool all) {
  std::string note = f.rule.same_as.empty() ? "" : fmt::format(" (same as {})", f.rule.same_as);
  const std::string value = f.yaml();
  if (f.rule.required)
    note += " (required)";
  else if (!f.is_bool() && value != "\"\"" && value != "[]" && f.rule.same_as.empty())
    note += fmt::format(" (default {})", value);
  if (all && !f.rule.detail.empty()) note += ". " + f.rule.detail;
  return two_columns(flag_word(f), f.help + note);
}

std::string option_line(const Option& o, bool all) {
  std::string text = o.help;
  if (const size_t taken = taken_text(o.name()).size(); !all && text.size() > kLongHelp) text.resize(text.size() - taken);
  if (!o.rule.choices.empty())
    if (const std::string type = " (" + o.type() + ")"; all || text.size() + type.size() <= kLongHelp) text += type;
  return two_columns(fmt::format("{}={}", o.name(), o.yaml()), text);
}

// Returns the options that the command takes, by section, without those that a flag sets.
std::vector<Section> sections_taken(Config& defaults, const CommandSpec& spec, const std::vector<Option>& flags) {
  std::vector<Section> out;
  for (Section& s : sections_of(defaults)) {
    std::erase_if(s.options, [&](const Option& o) {
      return !takes(spec, o) ||
             std::any_of(flags.begin(), flags.end(), [&](const Option& f) { return f.rule.same_as == o.name(); });
    });
    if (!s.options.empty()) out.push_back(std::move(s));
  }
  return out;
}

constexpr const char* kOptions = "in the file or as section.key=value (the command line wins; values are YAML):\n";
constexpr const char* kExplainHint = "`ravine config --explain section.key` tells more about one.\n";

}  // namespace

std::string common_help(const CommandSpec& spec, const std::vector<Option>& flags) {
  std::string text = head(spec, flags);
  std::vector<std::string> headings;
  for (const Option& f : flags)
    if (std::find(headings.begin(), headings.end(), f.heading) == headings.end()) headings.push_back(f.heading);
  if (headings.empty()) headings.emplace_back();
  for (const std::string& heading : headings) {
    text += fmt::format("\n{}:\n", heading.empty() ? "Flags" : heading);
    for (const Option& f : flags)
      if (f.heading == heading) text += flag_line(f, false);
    if (heading != headings.back()) continue;
    if (!spec.sections.empty()) text += two_columns("--config FILE", "YAML file with options");
    text += two_columns("--help", "this page; --help-all: every flag and option, with details");
  }
  if (spec.sections.empty()) return text;
  Config defaults;
  const std::vector<Section> sections = sections_taken(defaults, spec, flags);
  size_t all = 0, shown = 0;
  std::string lines;
  std::vector<std::string> names;
  for (const Section& s : sections) {
    names.push_back(s.name);
    for (const Option& o : s.options) {
      ++all;
      const bool shows =
          spec.shown.empty() ? o.rule.common : std::find(spec.shown.begin(), spec.shown.end(), o.name()) != spec.shown.end();
      if (!shows) continue;
      ++shown;
      lines += option_line(o, false);
    }
  }
  if (shown > 0) text += fmt::format("\nOptions{}, {}{}", shown < all ? " that are set most" : "", kOptions, lines);
  if (shown == all) return text + "\n" + kExplainHint;
  return text + fmt::format(
                    "\n`ravine {} --help SECTION` shows a section, `--help-all` all {} options; `ravine config --explain "
                    "section.key` tells more.\n{}",
                    spec.name, all, paragraph(fmt::format("Sections: {}.", fmt::join(names, ", "))));
}

std::string command_help(const CommandSpec& spec, const std::vector<Option>& flags) {
  std::string text = head(spec, flags) + "\nFlags:\n";
  for (const Option& f : flags) text += flag_line(f, true);
  if (!spec.sections.empty()) text += two_columns("--config FILE", "YAML file with the options below");
  text += two_columns("--help", "the flags and the options that are set most");
  if (spec.sections.empty()) return text;
  text += two_columns("--help-all", "this page") + fmt::format("\nOptions, {}", kOptions);
  Config defaults;
  for (const Section& s : sections_taken(defaults, spec, flags))
    for (const Option& o : s.options) text += option_line(o, true);
  return text + "\n" + kExplainHint;
}

std::string section_help(const CommandSpec& spec, const std::string& section) {
  Config defaults;
  std::vector<std::string> names;
  for (const Section& s : sections_taken(defaults, spec, {})) {
    names.push_back(s.name);
    if (s.name != section) continue;
    std::string text = fmt::format("{}: {}\n\nOptions, {}", s.name, s.help, kOptions);
    for (const Option& o : s.options) text += option_line(o, true);
    return text + "\n" + kExplainHint;
  }
  throw UserError(fmt::format("unknown section '{}'", section.substr(0, 80)), "command line",
                  fmt::format("--help takes a section of the config that {} takes", spec.name),
                  did_you_mean(section, names,
                               names.empty() ? fmt::format("see `ravine {} --help`", spec.name)
                                             : fmt::format("one of: {}", fmt::join(names, ", "))));
}

std::optional<HelpRequest> requested_help(const std::vector<std::string>& args) {
  for (size_t i = 0; i < args.size() && args[i] != "--"; ++i) {
    if (args[i] == "--help-all") return HelpRequest{.all = true, .section = ""};
    if (args[i] != "--help" && args[i] != "-h") continue;
    const bool named = i + 1 < args.size() && !args[i + 1].starts_with('-') && args[i + 1].find('=') == std::string::npos;
    return HelpRequest{.all = false, .section = named ? args[i + 1] : ""};
  }
  return {};
}

}  // namespace ravine
