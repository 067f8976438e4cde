#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/completion.h"

namespace ravine {
namespace {

// The branches of the script's case statements.
struct BashArms {
  std::string parents;  // groups of actions
  std::string words;    // next words of 'command' or 'command action'
  std::string values;   // choices of 'command action --flag'

  void add(const CompletionCommand& c) {
    std::string list;
    if (!c.actions.empty()) {
      parents += fmt::format("    {}) ((${{#typed[@]}} > 2)) && place+=\" ${{typed[2]}}\" ;;\n", c.name);
      for (const CompletionCommand& a : c.actions) {
        list += a.last_word() + " ";
        add(a);
      }
      words += fmt::format("    '{}') words='{}--help' ;;\n", c.name, list);
      return;
    }
    for (const std::string& name : c.names) list += name + " ";
    for (const CompletionWord& f : c.flags) {
      list += f.word + " ";
      if (!f.values.empty()) values += fmt::format("    '{} {}') values='{}' ;;\n", c.name, f.word, fmt::join(f.values, " "));
    }
    for (const std::string& s : c.sections) list += "$" + s + " ";
    for (const CompletionWord& o : c.options) list += o.word + "= ";
    list.pop_back();
    words += fmt::format("    '{}') words=\"{}\" ;;\n", c.name, list);
  }
};

}  // namespace

std::string bash_completion(const CompletionTables& tables) {
  BashArms arms;
  std::string names, sections, keys;
  for (const CompletionCommand& c : tables.commands) {
    names += c.name + " ";
    arms.add(c);
  }
  for (const CompletionTables::Section& s : tables.sections) {
    std::string all;
    for (const CompletionWord& o : s.options) {
      all += (all.empty() ? "" : " ") + o.word + "=";
      if (!o.values.empty()) keys += fmt::format("    {}) values='{}' ;;\n", o.word, fmt::join(o.values, " "));
    }
    sections += fmt::format("  local {}='{}'\n", s.name, all);
  }
  return fmt::format(R"(# Completion of ravine for bash. To use it:  source <(ravine completion bash)
_ravine() {{
  local line="${{COMP_LINE:0:COMP_POINT}}" words='' values='' head='' place w
  local cur="${{line##*[[:space:]]}}"
  local before="${{line:0:${{#line}}-${{#cur}}}}"
  local -a typed
  read -ra typed <<< "$before"
  local prev=''
  ((${{#typed[@]}})) && prev="${{typed[-1]}}"
{sections}
  COMPREPLY=()
  if ((${{#typed[@]}} < 2)); then
    words='help --help --version {names}'
  else
    place="${{typed[1]}}"
    case "$place" in
{parents}    *) ;;
    esac
    case "$place" in
{words}    help) words='{names}' ;;
    esac
    case "$place $prev" in
{values}    esac
    if [[ -n $values ]]; then
      words="$values"
    elif [[ $cur == *=* ]]; then
      words=''
      case "${{cur%%=*}}" in
{keys}      esac
      case "$place ${{cur%%=*}}" in
{values}      esac
      for w in $values; do words+="${{cur%%=*}}=$w "; done
    fi
  fi
  # Readline replaces only what stands behind the last = of the word.
  [[ $cur == *=* && $COMP_WORDBREAKS == *=* ]] && head="${{cur%=*}}="
  local IFS=$' \t\n'
  set -f
  for w in $words; do
    [[ $w == "$cur"* ]] || continue
    w="${{w#"$head"}}"
    [[ $w == *= ]] || w+=' '
    COMPREPLY+=("$w")
  done
  set +f
}}
complete -o default -o nospace -F _ravine ravine
)",
                     fmt::arg("sections", sections), fmt::arg("names", names), fmt::arg("parents", arms.parents),
                     fmt::arg("words", arms.words), fmt::arg("values", arms.values), fmt::arg("keys", keys));
}

}  // namespace ravine
