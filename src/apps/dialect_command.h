// Commands that take the command line of another program unchanged (dialects/dialect.h). They also have own flags, and
// options of Ravine as section.key=value, which override the other program's. Without --explain and --print-config they
// train, exactly as `ravine train`.
#pragma once
#include <string>
#include <vector>

#include "apps/command.h"
#include "dialects/dialect.h"
#include "dialects/key_page.h"
#include "dialects/launch_script.h"

namespace ravine {

struct DialectFlags {
  bool explain = false, print_config = false, keys = false, launches = false;
  int64_t ranks = 0, launch = 0;
  std::string script;
  ShellArguments arguments;  // words after `--`
  CommonFlags common;
  template <class V>
  void each(V&& v) {
    v("explain", explain, "show the translation of each key: a table on a terminal, else JSON lines; nothing is run");
    v("keys", keys, "print a page of all known keys in Markdown; nothing is run");
    v("print-config", print_config, "print the config as Ravine's YAML; nothing is run");
    v("ranks", ranks, "number of ranks for --explain and --print-config; 0: as in the job, or in the script",
      between(0, 1 << 15));
    v("script", script, "launch script that holds the command; it is read and never executed", reads() & metavar("FILE.sh"));
    v("launches", launches, "list the programs that the script starts, a JSON line each; nothing is run");
    v("launch", launch, "number of the program to run, of a script that starts several; 0: the only one", between(0, 1 << 10));
    common.each(v);
  }
};

// Returns the launch script that --script names, with its arguments and the program that --launch selects.
LaunchScript script_of(const DialectFlags& flags);
// Returns the environment of the job: the variables of this process, overridden by those that the script exports.
std::map<std::string, std::string> environment_of(const DialectFlags& flags);

// A function that translates the other program's command line into options of Ravine. `words` are the arguments that
// are neither a DialectFlags flag nor an option of Ravine. `flags.ranks` is the number of ranks; 0 if unknown.
using TranslateWords = Translation (*)(const std::vector<PlacedWord>& words, const DialectFlags& flags);

// Returns a command that takes the command line of another program. keys: all keys that the other program's line may
// have (--keys). others: commands for scripts that start a program without training (Translation::command). list: a
// flag of the other program whose values, up to the next flag, look like options of Ravine.
Command dialect_command(CommandSpec spec, std::string group, TranslateWords translate, std::vector<KeySection> (*keys)(),
                        std::vector<Command> others = {}, std::string list = "");

}  // namespace ravine
