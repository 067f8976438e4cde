// Launch scripts of training jobs, followed as bash would run them (dialects/shell_run.h), and never run. A word that only a shell can
// know is in trouble; it is an error only where somebody needs it. A variable that the script does not set is that of the environment.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "dialects/dialect.h"
#include "dialects/shell_script.h"

namespace ravine {

LaunchScript parse_launch_script(std::string_view text, const std::string& name,
                                 const ShellArguments& arguments = {});  // UserErrors at name:line
LaunchScript read_launch_script(const std::string& path, const ShellArguments& arguments = {});

// The word with its place; a UserError at FILE:LINE if it is in trouble.
PlacedWord known_word(const LaunchScript& script, const ScriptWord& word);

// The command that starts a Python program, behind python, torchrun, deepspeed and the like, mpirun, srun, or by itself. Of several
// that of script.launch; without a number they are a UserError that shows them with their numbers.
struct LaunchedProgram {
  PlacedWord program;             // "tasks/evaluation/evaluation_llama.py"
  std::vector<PlacedWord> flags;  // behind it
  int64_t ranks = 0;              // that the launcher is told to start, over all machines; 1 without one
};
LaunchedProgram launched_program(const LaunchScript& script);
// All that a script starts, in its order; `program`: the index of the word that names it.
struct ScriptLaunch {
  const ScriptCommand* words;
  size_t program;
};
std::vector<ScriptLaunch> launches_of(const LaunchScript& script);
// A UserError at FILE:LINE where the script goes to another folder (cd) before the launch: its relative paths would mean others.
void refuse_other_folder(const LaunchScript& script, const ScriptCommand& launch);
// The index of the launch that is meant, of those that begin with these words; `shown` says each in a word.
size_t chosen_launch(const LaunchScript& script, const std::vector<std::string>& shown,
                     const std::vector<ScriptWord>& launches);

}  // namespace ravine
