// Launch scripts of training jobs, read as bash would read them, and never run.
//
// Understood: comments, continuations, quotes, NAME=value and NAME+=value (also behind export, declare, local, readonly), arrays
// NAME=( .. ) and NAME+=( .. ), $NAME, ${NAME}, ${NAME:-default}, ${NAME[@]}, $(( arithmetic )), here-documents, words split at
// blanks. Other commands, redirections, pipes and & are passed over. What only a shell can tell ($( ), `..`, $1, a variable that
// a condition or a loop sets, whether a command in one of them runs, or behind || or a test and &&) is trouble of the words that it is
// part of, and an error only where somebody needs them. A
// variable that the script does not set is that of the environment, as in a shell.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dialects/dialect.h"

namespace ravine {

struct ScriptWord {
  std::string text;
  int line = 0;         // from 1
  std::string trouble;  // why it is not known; empty: it is
  int trouble_line = 0;
};

using ScriptCommand = std::vector<ScriptWord>;  // a simple command, its words expanded; at least one

struct LaunchScript {
  std::string name;
  std::vector<ScriptCommand> commands;        // in the order of the text, also those in conditions and loops
  std::map<std::string, ScriptWord> written;  // what `cat <<END > FILE` would write, by FILE
};

constexpr int64_t kScriptBytes = int64_t{1} << 20;  // of a script, and of all that its words expand to

LaunchScript parse_launch_script(std::string_view text, const std::string& name);  // UserErrors at name:line
LaunchScript read_launch_script(const std::string& path);

// The word with its place; a UserError at FILE:LINE if it is in trouble.
PlacedWord known_word(const LaunchScript& script, const ScriptWord& word);

// The command that starts a Python program, of which a script has one (two are a UserError that names both lines): behind python, torchrun, deepspeed and the like, or mpirun and srun.
struct LaunchedProgram {
  PlacedWord program;             // "tasks/evaluation/evaluation_llama.py"
  std::vector<PlacedWord> flags;  // behind it
  int64_t ranks = 0;              // that the launcher is told to start, over all machines; 1 without one
};
LaunchedProgram launched_program(const LaunchScript& script);
// A UserError at FILE:LINE where the script goes to another folder (cd) before the launch: its relative paths would mean others.
void refuse_other_folder(const LaunchScript& script, const ScriptCommand& launch);
[[noreturn]] void refuse_second_launch(const LaunchScript& script, const ScriptWord& first, const ScriptWord& second);

}  // namespace ravine
