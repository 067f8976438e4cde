// Finds the launched program in a launch script of a training job. The script is followed as bash would run it
// (dialects/shell_run.h), and is never run. A word that only a shell can know is marked with a trouble; it is an error
// only if the word is needed. A variable that the script does not set has its value in the environment.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "dialects/dialect.h"
#include "dialects/shell_script.h"

namespace ravine {

// Follow a launch script without running it, and return the programs that it would start. text: the script; path: its
// file; at most 1 MiB. arguments: $1, $2, .. of the script. Errors are UserErrors at name:line.
LaunchScript parse_launch_script(std::string_view text, const std::string& name, const ShellArguments& arguments = {});
LaunchScript read_launch_script(const std::string& path, const ShellArguments& arguments = {});

// Returns a word of a script with its place. A word whose value is not known without a shell (ScriptWord::problem) is a
// UserError at FILE:LINE.
PlacedWord known_word(const LaunchScript& script, const ScriptWord& word);

// A launched Python program.
struct LaunchedProgram {
  PlacedWord program;             // "tasks/evaluation/evaluation_llama.py"
  std::vector<PlacedWord> flags;  // the words after it
  int64_t ranks = 0;              // number of processes on all machines that the launcher starts; 1 without one
};
// Returns the training program that a script starts by python, torchrun, deepspeed, mpirun, srun and the like, or
// directly. If it starts several programs, program number script.launch is returned; without a number a UserError lists
// them with their numbers.
LaunchedProgram launched_program(const LaunchScript& script);
// A command of a script that starts a program. program: the index in *words of the word that names the program.
struct ScriptLaunch {
  const ScriptCommand* words;
  size_t program;
};
// Returns all launches of the script, in order. They point into `script`, which must outlive them.
std::vector<ScriptLaunch> launches_of(const LaunchScript& script);
// Throws a UserError at FILE:LINE if the script changes to another folder (cd) before the launch. The relative paths of
// the launch would then be wrong.
void refuse_other_folder(const LaunchScript& script, const ScriptCommand& launch);
// Returns the index, from 0, of the launch that the user has chosen (script.launch), or 0 if there is only one. shown:
// the names of all launches in messages. launches: a word of each, for its place. A UserError if there are several and
// none is chosen, or if the number is too large.
size_t chosen_launch(const LaunchScript& script, const std::vector<std::string>& shown,
                     const std::vector<ScriptWord>& launches);

}  // namespace ravine
