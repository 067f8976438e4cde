// `ravine completion bash`: a script made from the tables of commands and options. It needs no call of ravine to complete.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/commands.h"

namespace ravine {
namespace {

struct CompletionFlags {
  std::string shell;
  template <class V>
  void each(V&& v) {
    v("shell", shell, "shell to write for", positional() & required() & one_of({"bash"}));
  }
};

std::string values_of(const Option& o) {
  if (o.is_bool()) return "true false";
  std::vector<std::string> words;
  for (const std::string& c : o.rule.choices)
    if (!c.empty()) words.push_back(c);
  return fmt::format("{}", fmt::join(words, " "));
}

struct Script {
  std::string words;   // case "command" or "command action": what may follow
  std::string values;  // case "command action --flag": its choices

  void add(const Command& c) {
    if (!c.actions.empty()) {
      std::string actions;
      for (const Command& a : c.actions) {
        actions += a.spec.name.substr(a.spec.name.rfind(' ') + 1) + " ";
        add(a);
      }
      words += fmt::format("    '{}') words='{}--help' ;;\n", c.spec.name, actions);
      return;
    }
    auto call = c.call();
    std::string flags = c.spec.sections.empty() ? "" : "--config ", names, sections;
    for (const Option& f : call->flags()) {
      if (f.rule.positional) {
        names += values_of(f) + " ";
        continue;
      }
      flags += "--" + f.key + " ";
      if (!f.is_bool() && !values_of(f).empty())
        values += fmt::format("    '{} --{}') values='{}' ;;\n", c.spec.name, f.key, values_of(f));
    }
    for (const std::string& s : c.spec.sections) sections += " $" + s;
    words += fmt::format("    '{}') words=\"{}{}--help{}\" ;;\n", c.spec.name, names, flags, sections);
  }
};

std::string bash_script(const std::vector<Command>& commands) {
  Script script;
  std::string names, sections, keys;
  for (const Command& c : commands) {
    names += c.spec.name + " ";
    script.add(c);
  }
  Config defaults;
  for (const Section& s : sections_of(defaults)) {
    std::string all;
    for (const Option& o : s.options) {
      all += (all.empty() ? "" : " ") + o.name() + "=";
      if (!values_of(o).empty()) keys += fmt::format("    {}) values='{}' ;;\n", o.name(), values_of(o));
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
                     fmt::arg("sections", sections), fmt::arg("names", names),
                     fmt::arg("parents",
                              [&] {
                                std::string parents;
                                for (const Command& c : commands)
                                  if (!c.actions.empty())
                                    parents += fmt::format("    {}) ((${{#typed[@]}} > 2)) && place+=\" ${{typed[2]}}\" ;;\n",
                                                           c.spec.name);
                                return parents;
                              }()),
                     fmt::arg("words", script.words), fmt::arg("values", script.values), fmt::arg("keys", keys));
}

}  // namespace

Command completion_command(const std::vector<Command>& others) {
  struct Completion : Call {
    explicit Completion(std::vector<Command> all) : commands(std::move(all)) {}
    std::vector<Option> flags() override { return options_of(flags_); }
    int run(Config&) override {
      std::string script = bash_script(commands);
      std::fwrite(script.data(), 1, script.size(), stdout);
      return 0;
    }
    CompletionFlags flags_;
    std::vector<Command> commands;
  };
  Command made{{.name = "completion",
                .summary = "print a completion script for the shell",
                .example = "source <(ravine completion bash)"},
               "Machine",
               nullptr,
               {}};
  made.call = [others, made]() -> std::unique_ptr<Call> {
    std::vector<Command> all = others;
    Command self = made;
    self.call = [] { return std::make_unique<Completion>(std::vector<Command>{}); };
    all.push_back(self);
    return std::make_unique<Completion>(all);
  };
  return made;
}

}  // namespace ravine
