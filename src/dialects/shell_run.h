// Follows a shell script as far as it can be followed without running anything: which commands it starts, with which words.
//
// Known: variables, arrays, arithmetic, functions, conditions on variables and on files that are there, loops over known words,
// source, eval, other scripts started by bash, and the answers of shell_asks.h. Unknown: the result of any other program. A command
// that such a result decides on is in trouble, as is a variable that it sets.
#pragma once
#include <string>
#include <string_view>

#include "dialects/shell_script.h"

namespace ravine {

LaunchScript follow_shell(std::string_view text, const std::string& name, const ShellArguments& arguments);

}  // namespace ravine
