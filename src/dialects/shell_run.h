// Follows a shell script without running it, and finds the commands that it starts, with their words.
//
// It follows variables, arrays, arithmetic, functions, conditions on variables and files, loops over known words,
// source, eval, other scripts started by bash, and the programs of shell_substitution.h. The result of any other
// program is unknown. A command that depends on an unknown result, and a variable that this command sets, are marked
// with a trouble.
#pragma once
#include <string>
#include <string_view>

#include "dialects/shell_script.h"

namespace ravine {

// Follows the text of a shell script without running it, and returns the programs that it would start. name: its path,
// for messages. arguments: $1, $2, .. of the script. Errors are UserErrors at name:line.
LaunchScript follow_shell(std::string_view text, const std::string& name, const ShellArguments& arguments);

}  // namespace ravine
