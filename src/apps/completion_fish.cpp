#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/completion.h"

namespace ravine {
namespace {

std::string fish_quoted(const std::string& text) {
  std::string out = "'";
  for (char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

void add_lines(const CompletionCommand& c, std::string& out) {
  for (const CompletionCommand& a : c.actions) {
    out += fmt::format("complete -c ravine -n '__ravine_typed {}' -f -a {} -d {}\n", c.name, a.last_word(),
                       fish_quoted(a.summary));
    add_lines(a, out);
  }
  if (!c.actions.empty()) return;
  const std::string at = fmt::format("complete -c ravine -n '__ravine_at {}'", c.name);
  if (!c.names.empty()) out += fmt::format("{} -f -a '{}'\n", at, fmt::join(c.names, " "));
  for (const CompletionWord& f : c.flags)
    out += fmt::format("{} -l {}{}{} -d {}\n", at, f.word.substr(2), f.takes_value ? " -r" : "",
                       f.values.empty() ? "" : fmt::format(" -f -a '{}'", fmt::join(f.values, " ")), fish_quoted(f.help));
  if (!c.sections.empty()) out += fmt::format("{} -a '(__ravine_options {})'\n", at, fmt::join(c.sections, " "));
  for (const CompletionWord& o : c.options) {
    out += fmt::format("{} -f -a {}= -d {}\n", at, o.word, fish_quoted(o.help));
    for (const std::string& v : o.values) out += fmt::format("{} -f -a {}={}\n", at, o.word, v);
  }
}

}  // namespace

std::string fish_completion(const CompletionTables& tables) {
  std::string sections, lines;
  for (const CompletionTables::Section& s : tables.sections) {
    sections += fmt::format("            case {}\n", s.name);
    for (const CompletionWord& o : s.options) {
      sections += fmt::format("                echo {}=\\t{}\n", o.word, fish_quoted(o.help));
      for (const std::string& v : o.values) sections += fmt::format("                echo {}={}\n", o.word, v);
    }
  }
  for (const CompletionCommand& c : tables.commands) {
    lines += fmt::format("complete -c ravine -n '__ravine_typed' -f -a {} -d {}\n", c.name, fish_quoted(c.summary));
    add_lines(c, lines);
  }
  return fmt::format(
      R"(# Completion of ravine for fish. To use it:  ravine completion fish > ~/.config/fish/completions/ravine.fish
# The words typed so far begin with those given.
function __ravine_at
    set -l words (commandline -opc)
    test (count $words) -gt (count $argv); or return 1
    for i in (seq (count $argv))
        set -l at (math $i + 1)
        test "$words[$at]" = "$argv[$i]"; or return 1
    end
end
# They are those given and no more.
function __ravine_typed
    __ravine_at $argv; and test (count (commandline -opc)) -eq (math (count $argv) + 1)
end
function __ravine_options
    for section in $argv
        switch $section
{}        end
    end
end
{}complete -c ravine -n '__ravine_typed' -l version -d 'the version'
complete -c ravine -n '__ravine_typed' -l help -d 'all commands'
)",
      sections, lines);
}

}  // namespace ravine
