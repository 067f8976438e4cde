#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/completion.h"

namespace ravine {
namespace {

std::string zsh_quoted(const std::string& text) {
  std::string out = "'";
  for (char c : text) {
    if (c == '\'') out += "'\\'";
    out += c;
  }
  return out + "'";
}

// Returns 'word:help', the format of _describe.
std::string described(const std::string& word, const std::string& help) { return zsh_quoted(word + ":" + help); }

struct ZshArms {
  std::string parents, words, values;

  void add(const CompletionCommand& c) {
    std::string list;
    if (!c.actions.empty()) {
      for (const CompletionCommand& a : c.actions) {
        list += described(a.last_word(), a.summary) + " ";
        add(a);
      }
      parents += fmt::format(
          "    {})\n      if (( CURRENT == 3 )); then list=({}); _describe action list; return; fi\n      place+=\" $words[3]\" ;;\n",
          c.name, list);
      return;
    }
    for (const std::string& name : c.names) list += zsh_quoted(name) + " ";
    for (const CompletionWord& f : c.flags) {
      list += described(f.word, f.help) + " ";
      if (!f.values.empty()) values += fmt::format("    '{} {}') values=({}) ;;\n", c.name, f.word, fmt::join(f.values, " "));
    }
    std::string keys;
    for (const std::string& s : c.sections) keys += fmt::format("\"${{{}[@]}}\" ", s);
    for (const CompletionWord& o : c.options) keys += described(o.word, o.help) + " ";
    words += fmt::format("    '{}') list=({}) keys=({}) ;;\n", c.name, list, keys);
  }
};

}  // namespace

std::string zsh_completion(const CompletionTables& tables) {
  ZshArms arms;
  std::string commands, sections, choices;
  for (const CompletionCommand& c : tables.commands) {
    commands += described(c.name, c.summary) + " ";
    arms.add(c);
  }
  for (const CompletionTables::Section& s : tables.sections) {
    std::string all;
    for (const CompletionWord& o : s.options) {
      all += described(o.word, o.help) + " ";
      if (!o.values.empty()) choices += fmt::format("      {}) values=({}) ;;\n", o.word, fmt::join(o.values, " "));
    }
    sections += fmt::format("  local -a {}; {}=({})\n", s.name, s.name, all);
  }
  return fmt::format(R"(#compdef ravine
# Completion of ravine for zsh. To use it:  source <(ravine completion zsh), or as a file named _ravine in a folder of $fpath
_ravine() {{
  local place=$words[2] cur=$words[CURRENT] prev=$words[CURRENT-1]
  local -a list keys values
{sections}
  if (( CURRENT == 2 )); then
    list=({commands}'help:the help of a command' '--help:all commands' '--version:the version')
    _describe command list
    return
  fi
  case $place in
{parents}    help) list=({commands}); _describe command list; return ;;
  esac
  case "$place $prev" in
{values}  esac
  if (( $#values )); then
    compadd -- $values
    return
  fi
  if [[ $cur == *=* ]]; then
    case "$place ${{cur%%=*}}" in
{values}    esac
    case ${{cur%%=*}} in
{choices}    esac
    compset -P '*='
    if (( $#values )); then compadd -- $values; else _files; fi
    return
  fi
  case $place in
{words}  esac
  _describe flag list
  _describe option keys -S '='
  _files
}}
if [[ $funcstack[1] == _ravine ]]; then _ravine "$@"; else compdef _ravine ravine; fi
)",
                     fmt::arg("sections", sections), fmt::arg("commands", commands), fmt::arg("parents", arms.parents),
                     fmt::arg("values", arms.values), fmt::arg("choices", choices), fmt::arg("words", arms.words));
}

}  // namespace ravine
