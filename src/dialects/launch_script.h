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

// Follow a script: its text, or its file. Errors are UserErrors at name:line. At most 1 MiB.
LaunchScript parse_launch_script(std::string_view text, const std::string& name, const ShellArguments& arguments = {});
LaunchScript read_launch_script(const std::string& path, const ShellArguments& arguments = {});

// Returns the word with its place; a UserError at FILE:LINE if it has a trouble.
PlacedWord known_word(const LaunchScript& script, const ScriptWord& word);

// A launched Python program.
struct LaunchedProgram {
  PlacedWord program;             // "tasks/evaluation/evaluation_llama.py"
  std::vector<PlacedWord> flags;  // the words after it
  int64_t ranks = 0;              // number that the launcher starts, over all machines; 1 if it has none
};
// Returns the program that the script starts by python, torchrun, deepspeed, mpirun, srun and the like, or directly. Of
// several programs it is number script.launch; without a number a UserError lists them with their numbers.
LaunchedProgram launched_program(const LaunchScript& script);
// A command that starts a program. `program`: the index of the word that names it.
struct ScriptLaunch {
  const ScriptCommand* words;
  size_t program;
};
// Returns all launches of the script, in order. They point into `script`, which must outlive them.
std::vector<ScriptLaunch> launches_of(const LaunchScript& script);
// Throws a UserError at FILE:LINE if the script changes to another folder (cd) before the launch. The relative paths of
// the launch would then be wrong.
void refuse_other_folder(const LaunchScript& script, const ScriptCommand& launch);
// Returns the index of the chosen launch (script.launch). `launches`: a word of each launch, for its place. `shown`:
// their names in messages. A UserError if there are several and none is chosen, or the number is too large.
size_t chosen_launch(const LaunchScript& script, const std::vector<std::string>& shown,
                     const std::vector<ScriptWord>& launches);

}  // namespace ravine
