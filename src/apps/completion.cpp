// `ravine completion bash|zsh|fish`.
#include "apps/completion.h"

#include <algorithm>
#include <cstdio>

#include "apps/commands.h"

namespace ravine {
namespace {

enum class Shell : uint8_t { bash, zsh, fish };
constexpr auto names_of(Shell) {
  using enum Shell;
  return std::to_array<ValueName<Shell>>({{bash, "bash"}, {zsh, "zsh"}, {fish, "fish"}});
}

struct CompletionFlags {
  Shell shell = Shell::bash;
  template <class V>
  void each(V&& v) {
    v("shell", shell, "shell that the script is for: bash, zsh or fish", positional() & required());
  }
};

CompletionWord word_of(const std::string& word, const Option& o) {
  CompletionWord w{.word = word, .help = o.help, .values = {}, .takes_value = !o.is_bool()};
  if (o.is_bool()) w.values = {"true", "false"};
  for (const std::string& c : o.rule.choices)
    if (!c.empty()) w.values.push_back(c);
  return w;
}

CompletionCommand command_words(const Command& c) {
  CompletionCommand out{
      .name = c.spec.name, .summary = c.spec.summary, .flags = {}, .names = {}, .sections = {}, .options = {}, .actions = {}};
  Config defaults;
  for (const Section& s : sections_of(defaults)) {
    const bool whole = std::find(c.spec.sections.begin(), c.spec.sections.end(), s.name) != c.spec.sections.end();
    if (whole) out.sections.push_back(s.name);
    for (const Option& o : s.options)
      if (!whole && takes(c.spec, o)) out.options.push_back(word_of(o.name(), o));
  }
  for (const Command& a : c.actions) out.actions.push_back(command_words(a));
  if (c.actions.empty()) {
    auto call = c.call();
    if (!c.spec.sections.empty())
      out.flags.push_back({.word = "--config", .help = "YAML file with options", .values = {}, .takes_value = true});
    for (const Option& f : call->flags()) {
      CompletionWord w = word_of("--" + f.key, f);
      if (f.rule.positional)
        out.names.insert(out.names.end(), w.values.begin(), w.values.end());
      else
        out.flags.push_back(std::move(w));
      if (!f.rule.positional && f.is_bool()) out.flags.back().values.clear();
    }
  }
  out.flags.push_back({.word = "--help", .help = "what it takes", .values = {}, .takes_value = false});
  return out;
}

}  // namespace

CompletionTables completion_tables(const std::vector<Command>& commands) {
  CompletionTables tables;
  for (const Command& c : commands) tables.commands.push_back(command_words(c));
  Config defaults;
  for (const Section& s : sections_of(defaults)) {
    tables.sections.push_back({s.name, {}});
    for (const Option& o : s.options) tables.sections.back().options.push_back(word_of(o.name(), o));
  }
  return tables;
}

Command completion_command(const std::vector<Command>& others) {
  return command_on_table<CompletionFlags>({.name = "completion",
                                            .summary = "print a completion script for bash, zsh or fish",
                                            .example = "source <(ravine completion bash)"},
                                           "Machine", others, [](CompletionFlags& flags, const std::vector<Command>& commands) {
                                             const CompletionTables tables = completion_tables(commands);
                                             const std::string script = flags.shell == Shell::zsh    ? zsh_completion(tables)
                                                                        : flags.shell == Shell::fish ? fish_completion(tables)
                                                                                                     : bash_completion(tables);
                                             std::fwrite(script.data(), 1, script.size(), stdout);
                                             return 0;
                                           });
}

}  // namespace ravine
